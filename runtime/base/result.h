// Error values: Result<T> holds a T or an Error, Status is a Result without a value.
//
// An Error has a Code, on which callers decide; the errno, if a system call failed; and a message
// for users. The message is built from the inside out ("openat2 etc/passwd: No such file or
// directory"), and each layer may prepend what it was doing (Wrap). Functions return errors. Only
// the layer that gives up logs them, once.
//
// Thread rule: values, no shared state. Nothing here throws, except std::bad_alloc from strings.
#pragma once

#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace atl {

// The cause of an error, on which callers can act. Only runtime/api maps it to an HTTP status.
enum class Code {
  kInvalidArgument,     // the request is wrong, and repeating it will not help
  kNotFound,            // the named object does not exist
  kAlreadyExists,       // the name is taken
  kFailedPrecondition,  // the object is in a state that does not allow this
  kResourceExhausted,   // a limit or the disk is full
  kPermissionDenied,    // refused by policy, ours or the kernel's
  kDeadlineExceeded,    // took longer than allowed
  kUnavailable,         // a peer is not there, or the host lacks a feature
  kUnimplemented,       // known, but not offered
  kInternal,            // anything else: a bug or a broken host
};

// Returns "invalid_argument", "not_found", …, for logs and tests.
std::string_view CodeName(Code code);

class [[nodiscard]] Error {
 public:
  Error(Code code, std::string message, int error_number = 0)
      : code_(code), errno_(error_number), message_(std::move(message)) {}

  Code code() const { return code_; }
  // The errno of the failed system call, 0 if none was involved.
  int error_number() const { return errno_; }
  const std::string& message() const { return message_; }

  // Returns the error with the message "context: message"; code and errno are kept.
  Error Wrap(std::string_view context) &&;

 private:
  Code code_;
  int errno_;
  std::string message_;
};

// Makes the Error of a failed system call: "call: strerror(number)". `call` names the call and its
// object, such as "openat2 etc/passwd". The number determines the Code (ENOENT is kNotFound, ENOSPC
// is kResourceExhausted, …).
Error SysError(std::string_view call, int number);
// Like the above, with the current errno.
Error SysError(std::string_view call);

template <typename T>
using Result = tl::expected<T, Error>;
using Status = Result<void>;

inline tl::unexpected<Error> Fail(Error error) {
  return tl::unexpected<Error>(std::move(error));
}
inline tl::unexpected<Error> Fail(Code code, std::string message) {
  return tl::unexpected<Error>(Error(code, std::move(message)));
}
inline tl::unexpected<Error> FailSys(std::string_view call) {
  return tl::unexpected<Error>(SysError(call));
}

namespace internal {
[[noreturn]] void CheckFailed(const char* file, int line, const char* expression);
}  // namespace internal

}  // namespace atl

#define ATOLL_CONCAT_INNER(a, b) a##b
#define ATOLL_CONCAT(a, b) ATOLL_CONCAT_INNER(a, b)

// Returns the error of `expr` (a Status or Result) from the enclosing function, if there is one.
#define ATOLL_TRY(expr)                                                     \
  do {                                                                      \
    auto atoll_status = (expr);                                             \
    if (!atoll_status) return ::atl::Fail(std::move(atoll_status).error()); \
  } while (false)

// Assigns the value of `expr` to `decl`, or returns its error from the enclosing function:
// ATOLL_ASSIGN(UniqueFd fd, sys::Open(path));
#define ATOLL_ASSIGN(decl, expr) \
  ATOLL_ASSIGN_INNER(ATOLL_CONCAT(atoll_result_, __LINE__), decl, expr)
#define ATOLL_ASSIGN_INNER(tmp, decl, expr)             \
  auto tmp = (expr);                                    \
  if (!tmp) return ::atl::Fail(std::move(tmp).error()); \
  decl = std::move(*tmp)

// Aborts in every build type. For programming errors, never for bad input.
#define ATOLL_CHECK(expr) \
  ((expr) ? static_cast<void>(0) : ::atl::internal::CheckFailed(__FILE__, __LINE__, #expr))
