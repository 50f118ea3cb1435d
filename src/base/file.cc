#include "base/file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <lzma.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

namespace hase {
namespace {

namespace fs = std::filesystem;

Result<std::string> ReadPlain(const fs::path& path, int64_t limit) {
  std::error_code error;
  if (fs::is_directory(path, error))
    return Invalid(fmt::format("{}: is a directory", path.string()));
  std::ifstream in(path, std::ios::binary);
  if (!in) return Invalid(fmt::format("{}: {}", path.string(), std::strerror(errno)));
  const auto size = fs::file_size(path, error);
  if (!error && static_cast<int64_t>(size) > limit) {
    return Invalid(
        fmt::format("{}: {} bytes, more than the limit of {}", path.string(), size, limit));
  }
  std::string content;
  char block[1 << 16];
  while (in.read(block, sizeof block) || in.gcount() > 0) {
    content.append(block, static_cast<size_t>(in.gcount()));
    if (static_cast<int64_t>(content.size()) > limit) {
      return Invalid(fmt::format("{}: more than the limit of {} bytes", path.string(), limit));
    }
  }
  if (in.bad()) return Invalid(fmt::format("{}: read error", path.string()));
  return content;
}

}  // namespace

Result<std::string> ReadFile(const fs::path& path, int64_t limit) {
  std::error_code error;
  fs::path actual = path;
  if (!fs::exists(path, error)) {
    fs::path packed = path;
    packed += ".xz";
    if (fs::exists(packed, error)) actual = packed;
  }
  auto content = ReadPlain(actual, limit);
  if (!content || actual.extension() != ".xz") return content;
  auto unpacked = Decompress(*content, limit);
  if (!unpacked) return Invalid(fmt::format("{}: {}", actual.string(), unpacked.error().message));
  return unpacked;
}

Status WriteFileAtomically(const fs::path& path, std::string_view content) {
  const std::string target = path.string();
  // A device or pipe (/dev/null, /dev/stdout) is written to: renaming over it would replace it.
  std::error_code ignored;
  const bool in_place = fs::exists(path, ignored) && !fs::is_regular_file(path, ignored);
  const std::string temporary = in_place ? target : fmt::format("{}.tmp.{}", target, ::getpid());
  const auto fail = [&](const char* step) {
    const int code = errno;
    if (!in_place) ::unlink(temporary.c_str());
    return Unavailable(fmt::format("{}: {}: {}", target, step, std::strerror(code)));
  };
  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return fail("cannot create");
  while (!content.empty()) {
    const ssize_t n = ::write(fd, content.data(), content.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      const int code = errno;
      ::close(fd);
      errno = code;
      return fail("cannot write");
    }
    content.remove_prefix(static_cast<size_t>(n));
  }
  if (::fsync(fd) != 0 && errno != EINVAL && errno != EROFS) {
    const int code = errno;
    ::close(fd);
    errno = code;
    return fail("cannot sync");
  }
  if (::close(fd) != 0) return fail("cannot close");
  if (in_place) return {};
  if (::rename(temporary.c_str(), target.c_str()) != 0) return fail("cannot rename into place");
  return {};
}

Status CanWrite(const fs::path& path) {
  std::error_code ignored;
  const bool in_place = fs::exists(path, ignored) && !fs::is_regular_file(path, ignored);
  if (fs::is_directory(path, ignored)) {
    return Unavailable(fmt::format("{}: is a directory", path.string()));
  }
  fs::path target = in_place ? path : path.parent_path();
  if (target.empty()) target = ".";
  if (::access(target.c_str(), in_place ? W_OK : W_OK | X_OK) == 0) return {};
  return Unavailable(fmt::format("{}: cannot be written: {}", path.string(), std::strerror(errno)));
}

namespace {
// Runs a prepared coder over the whole input. The stream is always ended.
Result<std::string> RunCoder(lzma_stream& stream, std::string_view content, int64_t limit) {
  std::string out;
  uint8_t block[1 << 16];
  stream.next_in = reinterpret_cast<const uint8_t*>(content.data());
  stream.avail_in = content.size();
  lzma_ret code = LZMA_OK;
  while (code == LZMA_OK) {
    stream.next_out = block;
    stream.avail_out = sizeof block;
    code = lzma_code(&stream, LZMA_FINISH);
    out.append(reinterpret_cast<const char*>(block), sizeof block - stream.avail_out);
    if (static_cast<int64_t>(out.size()) > limit) {
      lzma_end(&stream);
      return Invalid(fmt::format("unpacks to more than the limit of {} bytes", limit));
    }
  }
  lzma_end(&stream);
  if (code != LZMA_STREAM_END) {
    return Invalid(code == LZMA_BUF_ERROR ? "truncated xz data"
                                          : fmt::format("broken xz data (code {})", int{code}));
  }
  return out;
}
}  // namespace

Result<std::string> Compress(std::string_view content) {
  lzma_stream stream = LZMA_STREAM_INIT;
  if (lzma_easy_encoder(&stream, 9, LZMA_CHECK_CRC64) != LZMA_OK)
    return Unavailable("xz: no memory");
  return RunCoder(stream, content, int64_t{1} << 40);
}

Result<std::string> Decompress(std::string_view content, int64_t limit) {
  lzma_stream stream = LZMA_STREAM_INIT;
  if (lzma_stream_decoder(&stream, uint64_t{1} << 30, LZMA_CONCATENATED) != LZMA_OK) {
    return Unavailable("xz: no memory");
  }
  return RunCoder(stream, content, limit);
}

}  // namespace hase
