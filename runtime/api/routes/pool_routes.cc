// Pools of sandboxes that are built before they are requested. Paths and members are upstream's. A
// pool's image and limits have the form of a create, because there are no pods here.
//
//   POST   /v1/pools          {"name", "image": {"uri"}, "resourceLimits"?, "capacitySpec"} → 201
//   GET    /v1/pools          {"items": […]}
//   GET    /v1/pools/{name}   the pool and the number of its sandboxes
//   PUT    /v1/pools/{name}   {"capacitySpec"} → 200
//   DELETE /v1/pools/{name}   204; 409 while it has sandboxes
#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/api/gate/error_map.h"
#include "runtime/api/gate/json.h"
#include "runtime/api/gate/validation.h"
#include "runtime/api/routes/api.h"
#include "runtime/base/json_text.h"

namespace atl::api {
namespace {

constexpr size_t kMaxPoolBody = 64 << 10;
constexpr size_t kMaxPoolName = 253;
constexpr int64_t kMostSandboxes = 1 << 20;

// Returns true for a lower-case DNS label of upstream's length.
bool IsPoolName(const std::string& name) {
  const auto is_word = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  return !name.empty() && name.size() <= kMaxPoolName && is_word(name.front()) &&
         is_word(name.back()) &&
         std::all_of(name.begin(), name.end(), [&](char c) { return is_word(c) || c == '-'; });
}

void ReadCount(const Field& capacity, const char* name, uint32_t* out) {
  const Field field = capacity.At(name);
  if (!field.present()) return field.Missing();
  int64_t count = 0;
  if (!field.Integer(&count)) return;
  if (count < 0) {
    return field.Complain("greater_than_equal", "Input should be greater than or equal to 0",
                          JsonText({{"ge", 0}}));
  }
  *out = static_cast<uint32_t>(std::min(count, kMostSandboxes));
}

void ReadCapacity(const Field& capacity, sandbox::PoolCapacity* out) {
  if (!capacity.IsRequiredObject()) return;
  ReadCount(capacity, "bufferMin", &out->buffer_min);
  ReadCount(capacity, "bufferMax", &out->buffer_max);
  ReadCount(capacity, "poolMin", &out->pool_min);
  ReadCount(capacity, "poolMax", &out->pool_max);
}

Parsed<sandbox::PoolCapacity> ParsePoolCapacity(const std::string& text) {
  auto parsed = ParseBody(text);
  if (!parsed) return Refuse(std::move(parsed).error());
  Problems problems;
  const Field body(*parsed, Location{"body"}, &problems);
  sandbox::PoolCapacity capacity;
  if (body.IsRequiredObject()) ReadCapacity(body.At("capacitySpec"), &capacity);
  if (!problems.empty()) return Refuse(problems.ToResponse());
  return capacity;
}

Parsed<sandbox::PoolRecord> ParseNewPool(const std::string& text) {
  auto parsed = ParseBody(text);
  if (!parsed) return Refuse(std::move(parsed).error());
  Problems problems;
  const Field body(*parsed, Location{"body"}, &problems);
  sandbox::PoolRecord pool;
  if (!body.IsRequiredObject()) return Refuse(problems.ToResponse());
  const Field name = body.At("name");
  if (!name.present()) {
    name.Missing();
  } else if (name.String(&pool.key) && !IsPoolName(pool.key)) {
    name.Complain("string_pattern_mismatch",
                  "String should be a lower-case DNS label of at most 253 characters");
  }
  if (body.At("template").present()) {
    body.BreaksRule(
        "template describes a pod, and there are none here; send image and "
        "resourceLimits as for a sandbox.");
  }
  const Field image = body.At("image");
  if (image.IsRequiredObject()) {
    const Field uri = image.At("uri");
    if (!uri.present()) uri.Missing();
    uri.String(&pool.image);
  }
  body.At("resourceLimits").StringMap(false, &pool.resource_limits);
  ReadCapacity(body.At("capacitySpec"), &pool.capacity);
  if (!problems.empty()) return Refuse(problems.ToResponse());
  return pool;
}

nlohmann::json CreatesJson(const sandbox::PoolCreates& creates) {
  nlohmann::json cold = nlohmann::json::object();
  for (int i = 0; i < sandbox::kColdReasons; ++i) {
    const uint64_t count = creates.cold[static_cast<size_t>(i)];
    const auto reason = static_cast<sandbox::ColdReason>(i);
    if (count != 0) cold[std::string(sandbox::ColdReasonName(reason))] = count;
  }
  return {{"claimed", creates.claimed}, {"cold", std::move(cold)}};
}

nlohmann::json PoolJson(const sandbox::WarmPools::View& pool) {
  const sandbox::PoolCapacity& capacity = pool.record.capacity;
  nlohmann::json out = {{"name", sandbox::PoolNameOf(pool.record)},
                        {"image", {{"uri", pool.record.image}}},
                        {"resourceLimits", pool.record.resource_limits},
                        {"capacitySpec",
                         {{"bufferMin", capacity.buffer_min},
                          {"bufferMax", capacity.buffer_max},
                          {"poolMin", capacity.pool_min},
                          {"poolMax", capacity.pool_max}}},
                        {"status",
                         {{"total", pool.allocated + pool.available},
                          {"allocated", pool.allocated},
                          {"available", pool.available}}},
                        {"creates", CreatesJson(pool.creates)},
                        {"createdAt", FormatTime(pool.record.created_at_ms)}};
  if (!pool.trouble.empty()) out["status"]["message"] = pool.trouble;
  if (!pool.record.tenant.empty()) out["tenant"] = pool.record.tenant;
  return out;
}

ApiError NoSuchPool(const std::string& name) {
  return {404, "KUBERNETES::POOL_NOT_FOUND", "pool '" + name.substr(0, 253) + "' does not exist"};
}

}  // namespace

void Api::AddPoolRoutes() {
  router_.Add("POST", "/pools", [this](const Call& call) { CreatePool(call); });
  router_.Add("GET", "/pools", [this](const Call& call) {
    nlohmann::json items = nlohmann::json::array();
    for (const auto& pool : parts_.sandboxes.pools.List(call.caller()))
      items.push_back(PoolJson(pool));
    call.Respond(JsonResponse(200, {{"items", std::move(items)}}));
  });
  router_.Add("GET", "/pools/{pool_name}", [this](const Call& call) {
    const auto pool = parts_.sandboxes.pools.Find(NamesOf(call), call.args[0]);
    if (!pool) return call.Respond(NoSuchPool(call.args[0]));
    call.Respond(JsonResponse(200, PoolJson(*pool)));
  });
  router_.Add("PUT", "/pools/{pool_name}", [this](const Call& call) { ResizePool(call); });
  router_.Add("DELETE", "/pools/{pool_name}", [this](const Call& call) {
    sandbox::WarmPools& pools = parts_.sandboxes.pools;
    if (!pools.Find(NamesOf(call), call.args[0])) return call.Respond(NoSuchPool(call.args[0]));
    if (auto removed = pools.Remove(NamesOf(call), call.args[0]); !removed) {
      return call.Respond(MapError(removed.error(), Doing::kPool));
    }
    call.Respond(EmptyResponse(204));
  });
}

void Api::CreatePool(const Call& call) {
  call.exchange().ReadBody(kMaxPoolBody, [this, call](Result<std::string> body) {
    if (!body) return call.Respond(MapError(body.error(), Doing::kReadBody));
    auto wanted = ParseNewPool(*body);
    if (!wanted) return call.Respond(std::move(wanted).error());
    sandbox::WarmPools& pools = parts_.sandboxes.pools;
    const std::string name = wanted->key;
    if (auto created = pools.Create(call.caller(), *std::move(wanted)); !created) {
      return call.Respond(MapError(created.error(), Doing::kPool));
    }
    http::Response response = JsonResponse(201, PoolJson(*pools.Find(call.caller(), name)));
    response.headers.Set("Location", "/v1/pools/" + name);
    call.Respond(std::move(response));
  });
}

void Api::ResizePool(const Call& call) {
  call.exchange().ReadBody(kMaxPoolBody, [this, call](Result<std::string> body) {
    if (!body) return call.Respond(MapError(body.error(), Doing::kReadBody));
    const auto capacity = ParsePoolCapacity(*body);
    if (!capacity) return call.Respond(capacity.error());
    sandbox::WarmPools& pools = parts_.sandboxes.pools;
    if (!pools.Find(NamesOf(call), call.args[0])) return call.Respond(NoSuchPool(call.args[0]));
    if (auto resized = pools.Resize(NamesOf(call), call.args[0], *capacity); !resized) {
      return call.Respond(MapError(resized.error(), Doing::kPool));
    }
    call.Respond(JsonResponse(200, PoolJson(*pools.Find(NamesOf(call), call.args[0]))));
  });
}

}  // namespace atl::api
