#include "runtime/base/allow_calls.h"

#include <seccomp.h>

#include <memory>
#include <string>

namespace atl {
namespace {

struct FilterFree {
  void operator()(void* context) const { seccomp_release(context); }
};

Status Check(int rc, const std::string& call) {
  if (rc != 0) return Fail(SysError(call, -rc));
  return {};
}

}  // namespace

Status AllowOnly(std::span<const AllowedCall> calls) {
  const std::unique_ptr<void, FilterFree> filter(seccomp_init(SCMP_ACT_KILL_PROCESS));
  if (!filter) return Fail(Code::kInternal, "seccomp_init");
  ATOLL_TRY(Check(seccomp_attr_set(filter.get(), SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS),
                  "badarch"));
  for (const AllowedCall& call : calls) {
    const int rc = call.argument < 0
                       ? seccomp_rule_add(filter.get(), SCMP_ACT_ALLOW, call.number, 0)
                       : seccomp_rule_add(filter.get(), SCMP_ACT_ALLOW, call.number, 1,
                                          scmp_arg_cmp{static_cast<unsigned>(call.argument),
                                                       SCMP_CMP_MASKED_EQ, call.mask, call.value});
    ATOLL_TRY(Check(rc, "seccomp_rule_add " + std::to_string(call.number)));
  }
  return Check(seccomp_load(filter.get()), "seccomp_load");
}

}  // namespace atl
