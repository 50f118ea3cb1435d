// A command of the `hase` binary: one file each, and its row in commands.cc.
//
// `setup` declares flags on the CLI11 sub-command and returns what runs after parsing: it gives the
// exit status (0, or 3 where part of the work is infeasible), or an Error, which main prints to
// stderr as one line and turns into the exit status. Results go to stdout; with --json nothing else
// does. Progress goes to stderr, and only if that is a terminal.
#pragma once

#include <CLI/CLI.hpp>

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace hase::cli {

using Action = std::function<Result<int>()>;

struct Command {
  std::string_view name;
  std::string_view help;      // one line, shown by `hase --help`; empty = hidden
  std::string_view examples;  // shown below the command's own --help
  Action (*setup)(CLI::App& command);
};

std::span<const Command> Commands();

// For unsigned options: CLI11 alone would take -1 for 2^64 - 1.
inline CLI::Validator NoMinus() {
  return CLI::Validator(
      [](std::string& text) {
        return text.starts_with('-') ? text + " is below 0" : std::string();
      },
      "", "no minus");
}

}  // namespace hase::cli
