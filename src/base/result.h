// Result<T>: a value or an Error, at every boundary (file, network, device, user input).
//
// An Error says what kind of failure it was (which fixes the exit status of `hase`), where it
// happened and what to do. "Infeasible" is an Error only at the command's edge: inside the planner
// it is a value (placement::Reject). Nothing in HASE throws; the one file that talks to a throwing
// library catches there.
#pragma once

#include <expected>
#include <string>
#include <utility>

namespace hase {

enum class ErrorKind {
  kInvalid,      // a file or its content is wrong                       exit status 1
  kUnavailable,  // a device, library or file system did not do its part exit status 1
  kUsage,        // flags, or a flag that contradicts the file           exit status 2
  kInfeasible,   // valid input that no device can ever satisfy          exit status 3
};

struct Error {
  ErrorKind kind = ErrorKind::kInvalid;
  std::string message;  // one line: what, in which file/line/field, and what to do
};

template <typename T>
using Result = std::expected<T, Error>;
using Status = std::expected<void, Error>;

inline std::unexpected<Error> Invalid(std::string message) {
  return std::unexpected(Error{ErrorKind::kInvalid, std::move(message)});
}
inline std::unexpected<Error> Unavailable(std::string message) {
  return std::unexpected(Error{ErrorKind::kUnavailable, std::move(message)});
}
inline std::unexpected<Error> Usage(std::string message) {
  return std::unexpected(Error{ErrorKind::kUsage, std::move(message)});
}
inline std::unexpected<Error> Infeasible(std::string message) {
  return std::unexpected(Error{ErrorKind::kInfeasible, std::move(message)});
}

// The exit status of a command that ends with this error.
constexpr int ExitStatus(ErrorKind kind) {
  return kind == ErrorKind::kUsage ? 2 : kind == ErrorKind::kInfeasible ? 3 : 1;
}

}  // namespace hase

// Returns the error of `expr` (a Result or Status) from the enclosing function.
#define HASE_RETURN_IF_ERROR(expr)                             \
  do {                                                         \
    if (auto hase_status_ = (expr); !hase_status_)             \
      return std::unexpected(std::move(hase_status_).error()); \
  } while (0)

#define HASE_CONCAT_INNER(a, b) a##b
#define HASE_CONCAT(a, b) HASE_CONCAT_INNER(a, b)
// HASE_ASSIGN_OR_RETURN(auto x, F()): declares x from F()'s value, or returns F()'s error.
#define HASE_ASSIGN_OR_RETURN(decl, expr) \
  HASE_ASSIGN_OR_RETURN_INNER(HASE_CONCAT(hase_result_, __LINE__), decl, expr)
#define HASE_ASSIGN_OR_RETURN_INNER(tmp, decl, expr)        \
  auto tmp = (expr);                                        \
  if (!tmp) return std::unexpected(std::move(tmp).error()); \
  decl = std::move(*tmp)
