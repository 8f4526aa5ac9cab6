#include "runtime/base/result.h"

#include <cerrno>
#include <cstring>

#include "runtime/base/log.h"

namespace atl {

std::string_view CodeName(Code code) {
  switch (code) {
    case Code::kInvalidArgument:
      return "invalid_argument";
    case Code::kNotFound:
      return "not_found";
    case Code::kAlreadyExists:
      return "already_exists";
    case Code::kFailedPrecondition:
      return "failed_precondition";
    case Code::kResourceExhausted:
      return "resource_exhausted";
    case Code::kPermissionDenied:
      return "permission_denied";
    case Code::kDeadlineExceeded:
      return "deadline_exceeded";
    case Code::kUnavailable:
      return "unavailable";
    case Code::kUnimplemented:
      return "unimplemented";
    case Code::kInternal:
      return "internal";
  }
  return "unknown";
}

namespace {

Code CodeOfErrno(int number) {
  switch (number) {
    case ENOENT:
    case ENOTDIR:
    case ESRCH:
      return Code::kNotFound;
    case EEXIST:
      return Code::kAlreadyExists;
    case EINVAL:
    case ENAMETOOLONG:
    case ELOOP:
      return Code::kInvalidArgument;
    case EPERM:
    case EACCES:
    case EROFS:
      return Code::kPermissionDenied;
    case ENOSPC:
    case EDQUOT:
    case ENOMEM:
    case EMFILE:
    case ENFILE:
    case E2BIG:
      return Code::kResourceExhausted;
    case ETIMEDOUT:
      return Code::kDeadlineExceeded;
    case ECONNREFUSED:
    case ECONNRESET:
    case EPIPE:
    case ENOSYS:
    case EOPNOTSUPP:
      return Code::kUnavailable;
    case EBUSY:
    case EADDRINUSE:
    case ENOTEMPTY:
      return Code::kFailedPrecondition;
    default:
      return Code::kInternal;
  }
}

}  // namespace

Error Error::Wrap(std::string_view context) && {
  std::string joined;
  joined.reserve(context.size() + 2 + message_.size());
  joined.append(context).append(": ").append(message_);
  return Error(code_, std::move(joined), errno_);
}

Error SysError(std::string_view call, int number) {
  char buffer[128];
  // The GNU strerror_r returns the text, which is not always in the buffer. It uses no locale and
  // no static state.
  const char* text = strerror_r(number, buffer, sizeof buffer);
  std::string message(call);
  message.append(": ").append(text);
  return Error(CodeOfErrno(number), std::move(message), number);
}

Error SysError(std::string_view call) {
  return SysError(call, errno);
}

namespace internal {

void CheckFailed(const char* file, int line, const char* expression) {
  LogLine(LogLevel::kError, "check failed")
      .Add("file", file)
      .Add("line", line)
      .Add("expression", expression);
  __builtin_trap();
}

}  // namespace internal
}  // namespace atl
