#include "apps/cli/help.h"

#include <algorithm>

namespace hase::cli {
namespace {

constexpr size_t kColumn = 28;        // where descriptions begin
constexpr size_t kLongestRange = 14;  // longer ones say nothing to a reader

// Columns of UTF-8 text without combining characters.
size_t ColumnsOf(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

// One line of the text, wrapped; `column` is where the cursor stands.
void WrapLine(std::string_view line, size_t indent, size_t width, size_t column, std::string& out) {
  bool fresh = true;  // nothing stands on this line of output yet
  while (!line.empty()) {
    const size_t gap = std::min(line.find_first_not_of(' '), line.size());
    const size_t end = std::min(line.find(' ', gap), line.size());
    const std::string_view word = line.substr(gap, end - gap);
    line.remove_prefix(end);
    if (!fresh && column + gap + ColumnsOf(word) > width) {
      out += '\n' + std::string(indent, ' ');
      column = indent;
    } else {
      out += std::string(gap, ' ');
      column += gap;
    }
    out += word;
    column += ColumnsOf(word);
    fresh = false;
  }
}

// "INT in [1 - 256]" of "INT:INT in [1 - 256]" as "1 to 256"; empty where there is none to show.
std::string RangeOf(const std::string& type) {
  const size_t open = type.find(" in ["), dash = type.find(" - ");
  if (open == std::string::npos || dash == std::string::npos || type.back() != ']') return {};
  const std::string range = type.substr(open + 5, dash - open - 5) + " to " +
                            type.substr(dash + 3, type.size() - dash - 4);
  return range.size() <= kLongestRange ? range : std::string();
}

// "--calibrate,--no-calibrate{false}" without what the flag sets.
std::string WithoutValues(std::string name) {
  for (size_t open = name.find('{'); open != std::string::npos; open = name.find('{')) {
    name.erase(open, name.find('}', open) - open + 1);
  }
  return name;
}

std::string Row(const std::string& name, const std::string& description) {
  std::string row = "  " + name;
  const size_t used = ColumnsOf(row);
  row += used + 2 > kColumn ? '\n' + std::string(kColumn, ' ') : std::string(kColumn - used, ' ');
  return row + Wrapped(description, kColumn).substr(kColumn) + '\n';
}

}  // namespace

std::string Wrapped(std::string_view text, size_t indent, size_t width) {
  std::string out;
  while (true) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    const size_t inner = std::min(line.find_first_not_of(' '), line.size());
    // A hanging indent where the line brings one of its own.
    const size_t hanging = indent + (inner > 0 ? 4 : 0);
    line.remove_prefix(inner);
    const size_t first = indent + (inner > 0 ? 2 : 0);
    out += std::string(first, ' ');
    WrapLine(line, hanging, width, first, out);
    if (end == text.size()) return out;
    out += '\n';
    text.remove_prefix(end + 1);
  }
}

std::string HelpFormatter::make_description(const CLI::App* app) const {
  return Wrapped(app->get_description(), 0) + '\n';
}

std::string HelpFormatter::make_subcommand(const CLI::App* command) const {
  return Row(command->get_display_name(true), command->get_description());
}

std::string HelpFormatter::make_option(const CLI::Option* option, bool is_positional) const {
  std::string name = WithoutValues(make_option_name(option, is_positional));
  std::string description = option->get_description();
  if (option->get_type_size() != 0) {
    const std::string type = option->get_type_name();
    name += ' ' + type.substr(0, type.find(':'));
    if (!option->get_default_str().empty()) name += '=' + option->get_default_str();
    if (const std::string range = RangeOf(type); !range.empty()) description += ", " + range;
    if (option->get_required()) description += " (required)";
  }
  return Row(name, description);
}

}  // namespace hase::cli
