// Whole files in and out, with errors that name the path.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/result.h"

namespace hase {

// Reads `path`; if it does not exist but `path`.xz does, that one. A name ending in .xz is
// unpacked. Fails on files above `limit` bytes (unpacked): a reader must not be an out-of-memory.
Result<std::string> ReadFile(const std::filesystem::path& path, int64_t limit = int64_t{1} << 31);

// Writes beside the target and renames, so a full disk or a crash leaves the old file whole.
Status WriteFileAtomically(const std::filesystem::path& path, std::string_view content);

// Whether WriteFileAtomically may write there, as far as can be told: before long work, not after.
Status CanWrite(const std::filesystem::path& path);

// A string as .xz data, and back.
Result<std::string> Compress(std::string_view content);
Result<std::string> Decompress(std::string_view content, int64_t limit = int64_t{1} << 31);

}  // namespace hase
