#include "runtime/wire/step.h"

#include <string>

namespace atl::wire {
namespace {

constexpr std::array<std::string_view, static_cast<size_t>(Step::kCount)> kStepNames = {
    "cgroup",  "upper",   "ids",     "clone", "namespaces", "tree",   "proc",  "mask",
    "rlimits", "seccomp", "user",    "exec",  "check",      "limits", "enter", "etc",
    "overlay", "mounts",  "volumes", "cover", "gate",       "state"};

std::string Context(Step step) {
  return "step " + std::string(StepName(step));
}

}  // namespace

std::string_view StepName(Step step) {
  const auto index = static_cast<size_t>(step);
  return index < kStepNames.size() ? kStepNames[index] : "?";
}

Error FailedAt(Step step, Error error) {
  return std::move(error).Wrap(Context(step));
}

bool IsFailedAt(Step step, const Error& error) {
  return error.message().starts_with(Context(step) + ": ");
}

}  // namespace atl::wire
