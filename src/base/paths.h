// Where HASE keeps things. Shipped data (catalogue, zoo kernel lists, trained predictor) lies in
// one folder, state (samples.db, hase.db) in another; nothing is written elsewhere unasked.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/result.h"

namespace hase {

// The folder of shipped data: $HASE_DATA, else `data` beside the binary or up to three folders
// above it (a build tree, an installation's bin/../share/hase/data), else the source tree's. An
// error says where was looked.
Result<std::filesystem::path> DataDir();
// A file in it; an error if it is not there.
Result<std::filesystem::path> DataFile(std::string_view relative);

// `flag` (--state DIR) if not empty, else $XDG_STATE_HOME/hase, else ~/.local/state/hase. Created
// if absent; an error names the folder and why it cannot be written.
Result<std::filesystem::path> StateDir(const std::string& flag);
// The same folder for who only reads it: it need not exist.
Result<std::filesystem::path> StatePath(const std::string& flag);

}  // namespace hase
