// Tenants and their keys. Extensions of the OpenSandbox API.
//
//   GET    /v1/whoami                       the caller's tenant, key, role and narrowing
//   GET    /v1/tenants                      {"items": [...]}
//   GET    /v1/tenants/{tenant}
//
//   POST   /v1/tenants/check                a tenants' file: 200 with its tenants, or 400
//   GET    /v1/tenants/{tenant}/keys        {"items": [...]}, without secrets
//   POST   /v1/tenants/{tenant}/keys        201: the key with its secret, once
//   DELETE /v1/tenants/{tenant}/keys/{key}  204
//   POST   /v1/tenants/{tenant}/keys/{key}/rotate
//                                           201: the successor
//   ...    /v1/keys                         the same for keys of the host
//
// Tenants themselves are in the operator's file, so the API only shows them.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/api/gate/error_map.h"
#include "runtime/api/gate/json.h"
#include "runtime/api/requests/key_request.h"
#include "runtime/api/routes/api.h"
#include "runtime/base/clock.h"
#include "runtime/tenants/quota_text.h"

namespace atl::api {
namespace {

using nlohmann::json;

constexpr size_t kMaxKeyBody = 64 << 10;
constexpr size_t kMaxTenantsFile = 1 << 20;

// Adds what the key may do less than its role.
void AddNarrowing(const tenants::Narrowing* narrowing, json* out) {
  if (narrowing == nullptr) return;
  if (!narrowing->routes.empty()) (*out)["routes"] = narrowing->routes;
  if (!narrowing->images.empty()) (*out)["images"] = narrowing->images;
  const auto max = tenants::QuotaTexts(narrowing->max);
  if (!max.empty()) (*out)["max"] = max;
}

json KeyJson(const tenants::KeyRecord& key) {
  const int64_t now = SystemClock().UnixMillis();
  json out{{"id", key.id},
           {"role", tenants::RoleName(key.role)},
           {"createdAt", FormatTime(key.created_at_ms)},
           {"state", key.revoked_at_ms != 0 ? "revoked"
                     : key.IsExpired(now)   ? "expired"
                                            : "active"}};
  if (!key.tenant.empty()) out["tenant"] = key.tenant;
  if (!key.name.empty()) out["name"] = key.name;
  if (!key.creator.empty()) out["creator"] = key.creator;
  if (key.expires_at_ms != 0) out["expiresAt"] = FormatTime(key.expires_at_ms);
  if (key.revoked_at_ms != 0) out["revokedAt"] = FormatTime(key.revoked_at_ms);
  if (key.last_use_ms != 0) out["lastUsedAt"] = FormatTime(key.last_use_ms);
  AddNarrowing(key.narrowing.get(), &out);
  return out;
}

void RespondNewKey(const Call& call, const tenants::NewKey& made) {
  const tenants::KeyRecord& key = made.record;
  json out = KeyJson(key);
  out["key"] = made.secret;
  http::Response response = JsonResponse(201, out);
  response.headers.Set(
      "Location",
      (key.tenant.empty() ? "/v1/keys/" : "/v1/tenants/" + key.tenant + "/keys/") + key.id);
  response.headers.Set("Cache-Control", "no-store");
  call.Respond(std::move(response));
}

json TenantJson(const tenants::Tenant& tenant) {
  json out{{"name", tenant.name},
           {"namespace", tenant.name_space},
           {"weight", tenant.weight},
           {"max", tenants::QuotaTexts(tenant.max)},
           {"images", tenant.images},
           {"egressCeiling", tenant.egress_ceiling},
           {"policyLocked", tenant.policy_locked},
           {"selfService", tenant.self_service}};
  if (!tenant.labels.empty()) out["labels"] = tenant.labels;
  return out;
}

ApiError NoSuchTenant(const std::string& name) {
  return {404, "TENANT::NOT_FOUND", "tenant '" + name.substr(0, 64) + "' not found"};
}

ApiError NoTenants() {
  return {409, "TENANT::NOT_CONFIGURED",
          "this daemon has no tenants and one key, server.api_key; set tenants.provider"};
}

// Returns the tenant of a route about keys. The routes of the host's keys have none.
std::string TenantOf(const Call& call, bool of_host) {
  return of_host ? std::string() : call.args[0];
}

}  // namespace

void Api::AddTenantRoutes() {
  router_.Add("GET", "/whoami", [this](const Call& call) {
    const tenants::Caller& caller = call.caller();
    json out{{"role", tenants::RoleName(caller.role)}, {"key", caller.key_id}};
    if (!caller.tenant.empty()) out["tenant"] = caller.tenant;
    if (!caller.subject.empty()) out["subject"] = caller.subject;
    AddNarrowing(caller.narrowing.get(), &out);
    // Whoever opens a terminal is told that others may read it.
    if (config_.record_pty != RecordPty::kOff) {
      out["recordsTerminals"] = config_.record_pty == RecordPty::kInput ? "input" : "output";
    }
    call.Respond(JsonResponse(200, out));
  });
  router_.Add("GET", "/tenants", [this](const Call& call) {
    json items = json::array();
    for (const tenants::SharedTenant& tenant : parts_.tenants.All()) {
      if (call.caller().Sees(tenant->name)) items.push_back(TenantJson(*tenant));
    }
    call.Respond(JsonResponse(200, {{"items", std::move(items)}}));
  });
  router_.Add("GET", "/tenants/{tenant}", [this](const Call& call) {
    if (const auto tenant = FindTenant(call)) call.Respond(JsonResponse(200, TenantJson(*tenant)));
  });
  router_.Add("POST", "/tenants/check", [this](const Call& call) { CheckTenants(call); });
  for (const bool of_host : {false, true}) {
    const std::string keys = of_host ? "/keys" : "/tenants/{tenant}/keys";
    router_.Add("GET", keys, [this, of_host](const Call& call) { ListKeys(call, of_host); });
    router_.Add("POST", keys, [this, of_host](const Call& call) { MakeKey(call, of_host); });
    router_.Add("DELETE", keys + "/{key_id}",
                [this, of_host](const Call& call) { RevokeKey(call, of_host); });
    router_.Add("POST", keys + "/{key_id}/rotate",
                [this, of_host](const Call& call) { RotateKey(call, of_host); });
  }
}

void Api::CheckTenants(const Call& call) {
  call.exchange().ReadBody(kMaxTenantsFile, [call](const Result<std::string>& body) {
    if (!body) return call.Respond(MapError(body.error(), Doing::kReadBody));
    const auto refuse = [&call](const Error& error) {
      call.Respond({400, "TENANT::INVALID_FILE", error.message()});
    };
    const auto file = tenants::ParseTenants(*body, "tenants.toml");
    if (!file) return refuse(file.error());
    if (const Status tested = RunTests(*file, {MayUse}); !tested) return refuse(tested.error());
    json names = json::array();
    size_t lines = 0;
    for (const tenants::Tenant& tenant : file->tenants) names.push_back(tenant.name);
    for (const auto& test : file->tests) lines += test.accept.size() + test.deny.size();
    call.Respond(JsonResponse(
        200, {{"tenants", std::move(names)}, {"tests", lines}, {"warnings", file->warnings}}));
  });
}

tenants::SharedTenant Api::FindTenant(const Call& call) const {
  const std::string& name = call.args[0];
  tenants::SharedTenant tenant = parts_.tenants.Find(name);
  if (tenant && call.caller().Sees(name)) return tenant;
  call.Respond(NoSuchTenant(name));
  return nullptr;
}

tenants::Caller Api::NamesOf(const Call& call) const {
  tenants::Caller caller = call.caller();
  if (!caller.sees_all || parts_.directory == nullptr) return caller;
  if (std::string tenant = call.Parameter("tenant"); !tenant.empty()) {
    caller.tenant = std::move(tenant);
  }
  return caller;
}

bool Api::MayHandleKeys(const Call& call, bool of_host, bool changes) const {
  if (parts_.directory == nullptr) {
    call.Respond(NoTenants());
    return false;
  }
  if (of_host) return true;
  const auto tenant = FindTenant(call);
  if (!tenant) return false;
  const tenants::Caller& caller = call.caller();
  if (caller.role != tenants::Role::kDeveloper || !changes) return true;
  // A narrowed key could otherwise make one that is not.
  const char* why = !tenant->self_service ? "the tenant has no self_service"
                    : caller.narrowing    ? "this key is narrowed"
                                          : nullptr;
  if (why == nullptr) return true;
  call.Respond(
      JsonResponse(403, {{"code", "FORBIDDEN"},
                         {"message", std::string(why) + ": an admin makes and revokes its keys"},
                         {"needs", "admin"}}));
  return false;
}

void Api::ListKeys(const Call& call, bool of_host) {
  if (!MayHandleKeys(call, of_host, false)) return;
  json items = json::array();
  for (const auto& key : parts_.directory->KeysOf(TenantOf(call, of_host))) {
    items.push_back(KeyJson(key));
  }
  call.Respond(JsonResponse(200, {{"items", std::move(items)}}));
}

void Api::AnswerNewKey(const Call& call, Result<tenants::NewKey> made) {
  if (!made) return call.Respond(MapError(made.error(), Doing::kKey));
  parts_.directory->WhenDurable([call, made = *std::move(made)](const Status& durable) {
    if (!durable) return call.Respond(MapError(durable.error(), Doing::kKey));
    RespondNewKey(call, made);
  });
}

void Api::MakeKey(const Call& call, bool of_host) {
  if (!MayHandleKeys(call, of_host, true)) return;
  call.exchange().ReadBody(kMaxKeyBody, [this, call, of_host](Result<std::string> body) {
    if (!body) return call.Respond(MapError(body.error(), Doing::kReadBody));
    auto wanted = ParseKeyRequest(*body, TenantOf(call, of_host));
    if (!wanted) return call.Respond(std::move(wanted).error());
    // The terms of tenants enforce these, and what the host makes has none.
    const tenants::Narrowing& narrowing = wanted->narrowing;
    if (of_host && (!narrowing.images.empty() || narrowing.max != tenants::Quota())) {
      return call.Respond(MapError(
          Error(
              Code::kInvalidArgument,
              std::string("images and max bind keys of tenants only; a key of the host, of role ") +
                  tenants::RoleName(wanted->role) + ", may be narrowed by routes"),
          Doing::kKey));
    }
    if (call.caller().role == tenants::Role::kDeveloper) {
      // Nobody gives away more than the default lifetime by self-service.
      constexpr int64_t kMostMs = tenants::kDefaultKeyDays * 24 * 3600 * 1000;
      if (wanted->lifetime_ms == 0 || wanted->lifetime_ms > kMostMs) wanted->lifetime_ms = kMostMs;
    }
    AnswerNewKey(call, parts_.directory->Make(*wanted, call.caller().key_id));
  });
}

void Api::RevokeKey(const Call& call, bool of_host) {
  if (!MayHandleKeys(call, of_host, true)) return;
  const Status revoked = parts_.directory->Revoke(TenantOf(call, of_host), call.args.back());
  if (!revoked) return call.Respond(MapError(revoked.error(), Doing::kKey));
  parts_.directory->WhenDurable([call](const Status& durable) {
    if (!durable) return call.Respond(MapError(durable.error(), Doing::kKey));
    call.Respond(EmptyResponse(204));
  });
}

void Api::RotateKey(const Call& call, bool of_host) {
  if (!MayHandleKeys(call, of_host, true)) return;
  call.exchange().ReadBody(kMaxKeyBody, [this, call, of_host](Result<std::string> body) {
    if (!body) return call.Respond(MapError(body.error(), Doing::kReadBody));
    const auto grace_ms = ParseGrace(*body);
    if (!grace_ms) return call.Respond(grace_ms.error());
    AnswerNewKey(call, parts_.directory->Rotate(TenantOf(call, of_host), call.args.back(),
                                                *grace_ms, call.caller().key_id));
  });
}

}  // namespace atl::api
