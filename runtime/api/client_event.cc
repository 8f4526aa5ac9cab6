#include "runtime/api/client_event.h"

#include <nlohmann/json.hpp>

#include "runtime/api/json.h"
#include "runtime/api/validation.h"

namespace atl::api {

Parsed<void> CheckClientEvent(const std::string& text) {
  auto parsed = ParseBody(text);
  if (!parsed) return Refuse(std::move(parsed).error());
  Problems problems;
  const Field body(*parsed, Location{"body"}, &problems);
  if (!body.IsRequiredObject()) return Refuse(problems.ToResponse());
  for (const char* name : {"eventType", "createDurationMs", "success"}) {
    if (const Field field = body.At(name); !field.present()) field.Missing();
  }
  std::string kind, ignored;
  if (body.At("eventType").String(&kind) && kind != "sandbox.create") {
    body.At("eventType")
        .Complain("literal_error", "Input should be 'sandbox.create'",
                  Dump({{"expected", "'sandbox.create'"}}));
  }
  int64_t duration = 0;
  if (body.At("createDurationMs").Integer(&duration) && duration < 0) {
    body.At("createDurationMs")
        .Complain("greater_than_equal", "Input should be greater than or equal to 0",
                  Dump({{"ge", 0}}));
  }
  bool success = false;
  body.At("success").Bool(&success);
  for (const char* name : {"sandboxId", "image"}) body.At(name).String(&ignored);
  if (!problems.empty()) return Refuse(problems.ToResponse());
  return {};
}

}  // namespace atl::api
