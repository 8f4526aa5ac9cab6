#include "runtime/wire/plan.h"

namespace atl::wire {

std::string EncodePlan(const Plan& plan) {
  return EncodeFields(plan);
}

Result<Plan> DecodePlan(std::string_view bytes) {
  Plan plan;
  if (!DecodeFields(bytes, &plan)) return Fail(Code::kInvalidArgument, "plan: malformed");
  for (const Volume& volume : plan.volumes) ATOLL_TRY(CheckForm(volume));
  return plan;
}

}  // namespace atl::wire
