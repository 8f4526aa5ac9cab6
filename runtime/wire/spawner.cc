#include "runtime/wire/spawner.h"

namespace atl::wire {
namespace {

constexpr std::array<std::string_view, static_cast<size_t>(Step::kCount)> kStepNames = {
    "cgroup",  "upper",   "ids",     "clone", "namespaces", "tree",   "proc",  "mask",
    "rlimits", "seccomp", "user",    "exec",  "check",      "limits", "enter", "etc",
    "overlay", "mounts",  "volumes", "cover", "gate",       "state"};

}  // namespace

std::string_view StepName(Step step) {
  const auto index = static_cast<size_t>(step);
  return index < kStepNames.size() ? kStepNames[index] : "?";
}

Result<Request> DecodeRequest(std::string_view bytes) {
  Request request;
  Reader head(bytes);
  head(request.number, request.type);
  if (head.ok() && request.type == RequestType::kHello) return request;
  const bool whole = DecodeFields(bytes, &request);
  if (!whole || request.type < RequestType::kHello || request.type > RequestType::kKeepRules) {
    return Fail(Code::kInvalidArgument, "spawner request: malformed");
  }
  return request;
}

Result<Reply> DecodeReply(std::string_view bytes) {
  Reply reply;
  if (!DecodeFields(bytes, &reply)) return Fail(Code::kInternal, "spawner reply: malformed");
  return reply;
}

}  // namespace atl::wire
