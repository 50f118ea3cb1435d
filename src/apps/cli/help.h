// How --help is laid out, for every command: at most 80 columns, names on the left, descriptions
// wrapped on the right.
#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <string_view>

namespace hase::cli {

constexpr size_t kHelpWidth = 80;

// `text` in lines of at most `width` columns, the first and all others after `indent` spaces. A
// line break in `text` stays; what is indented there stays indented.
std::string Wrapped(std::string_view text, size_t indent, size_t width = kHelpWidth);

class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_description(const CLI::App* app) const override;
  std::string make_subcommand(const CLI::App* command) const override;
  std::string make_option(const CLI::Option* option, bool is_positional) const override;
};

}  // namespace hase::cli
