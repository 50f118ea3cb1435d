#include "base/paths.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cstdlib>
#include <vector>

namespace hase {
namespace fs = std::filesystem;

namespace {

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

// The catalogue is the one file every data folder has; it tells ours from any other `data`.
bool IsDataDir(const fs::path& dir) {
  std::error_code error;
  return fs::exists(dir / "catalogue.csv", error);
}

}  // namespace

Result<fs::path> DataDir() {
  if (const auto dir = Environment("HASE_DATA"); !dir.empty()) {
    if (IsDataDir(dir)) return fs::path(dir);
    return Unavailable(
        fmt::format("HASE_DATA={} holds no catalogue.csv: point it at HASE's data folder", dir));
  }
  std::error_code error;
  std::vector<fs::path> tried;
  fs::path above = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (int i = 0; i < 4 && !above.empty(); ++i, above = above.parent_path()) {
    tried.push_back(above / "data");
    tried.push_back(above / "share/hase/data");
  }
#ifdef HASE_SOURCE_DIR
  tried.push_back(fs::path(HASE_SOURCE_DIR) / "data");
#endif
  for (const auto& dir : tried) {
    if (IsDataDir(dir)) return dir;
  }
  std::string list;
  for (const auto& dir : tried) list += fmt::format(" {}", dir.string());
  return Unavailable(
      fmt::format("HASE's data folder is not found (looked in{}); set HASE_DATA", list));
}

Result<fs::path> DataFile(std::string_view relative) {
  HASE_ASSIGN_OR_RETURN(const fs::path dir, DataDir());
  std::error_code error;
  if (fs::exists(dir / relative, error)) return dir / relative;
  return Unavailable(fmt::format("{}: shipped data file is missing", (dir / relative).string()));
}

Result<fs::path> StatePath(const std::string& flag) {
  if (!flag.empty()) return fs::path(flag);
  const auto xdg = Environment("XDG_STATE_HOME"), home = Environment("HOME");
  if (xdg.empty() && home.empty()) {
    return Usage("neither XDG_STATE_HOME nor HOME is set: give the state folder by --state DIR");
  }
  return xdg.empty() ? fs::path(home) / ".local/state/hase" : fs::path(xdg) / "hase";
}

Result<fs::path> StateDir(const std::string& flag) {
  HASE_ASSIGN_OR_RETURN(const fs::path dir, StatePath(flag));
  std::error_code error;
  fs::create_directories(dir, error);
  if (error) {
    return Unavailable(fmt::format("{}: cannot create the state folder: {} (choose one by --state)",
                                   dir.string(), error.message()));
  }
  if (access(dir.c_str(), W_OK | X_OK) != 0) {
    return Unavailable(
        fmt::format("{}: the state folder is not writable (choose one by --state)", dir.string()));
  }
  return dir;
}

}  // namespace hase
