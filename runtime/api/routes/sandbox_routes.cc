#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/api/gate/command_facts.h"
#include "runtime/api/gate/error_map.h"
#include "runtime/api/gate/json.h"
#include "runtime/api/ingress/endpoint.h"
#include "runtime/api/requests/create_request.h"
#include "runtime/api/requests/list_query.h"
#include "runtime/api/requests/metadata_patch.h"
#include "runtime/api/routes/api.h"
#include "runtime/api/routes/render.h"
#include "runtime/base/clock.h"
#include "runtime/base/json_text.h"
#include "runtime/base/sandbox_id.h"
#include "runtime/base/sha256.h"

namespace atl::api {
namespace {

// The spawner's message limit bounds the environment to far less, but JSON may escape each byte.
constexpr size_t kMaxCreateBody = 4 << 20;
constexpr size_t kMaxSmallBody = 64 << 10;
constexpr size_t kMaxIdempotencyKey = 255;

// Returns the idempotency key, or "" without one. Quotes around the key (a structured string) are
// part of it.
Parsed<std::string> IdempotencyKeyOf(const http::Request& request) {
  const std::string_view key = request.headers.Get("Idempotency-Key");
  const bool usable =
      std::all_of(key.begin(), key.end(), [](char c) { return c > ' ' && c < 127; });
  if (key.size() > kMaxIdempotencyKey || !usable) {
    return Refuse(400, "SANDBOX::INVALID_PARAMETER",
                  "Idempotency-Key: use at most 255 visible ASCII characters");
  }
  return std::string(key);
}

// Parses {"count": N?}, null or an empty body.
Parsed<size_t> ParseForkRequest(const std::string& text) {
  int64_t count = 1;
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) return 1;
  auto parsed = ParseBody(text);
  if (!parsed) return Refuse(std::move(parsed).error());
  if (parsed->is_null()) return 1;
  Problems problems;
  const Field body(*parsed, Location{"body"}, &problems);
  if (body.IsObject()) {
    const Field field = body.At("count");
    constexpr auto kMost = static_cast<int64_t>(sandbox::kMaxChildren);
    if (field.Integer(&count) && count < 1) {
      field.Complain("greater_than_equal", "Input should be greater than or equal to 1",
                     JsonText({{"ge", 1}}));
    } else if (count > kMost) {
      field.Complain("less_than_equal",
                     "Input should be less than or equal to " + std::to_string(kMost),
                     JsonText({{"le", kMost}}));
    }
  }
  if (!problems.empty()) return Refuse(problems.ToResponse());
  return static_cast<size_t>(count);
}

// Parses {"snapshotId": ID}.
Parsed<std::string> ParseRollbackRequest(const std::string& text) {
  auto parsed = ParseBody(text);
  if (!parsed) return Refuse(std::move(parsed).error());
  Problems problems;
  const Field body(*parsed, Location{"body"}, &problems);
  std::string snapshot;
  if (body.IsObject()) {
    const Field field = body.At("snapshotId");
    if (!field.present()) field.Missing();
    field.String(&snapshot);
  }
  if (!problems.empty()) return Refuse(problems.ToResponse());
  return snapshot;
}

}  // namespace

void Api::AddSandboxRoutes() {
  router_.Add("POST", "/sandboxes", [this](const Call& call) { CreateSandbox(call); });
  router_.Add("GET", "/sandboxes", [this](const Call& call) { ListSandboxes(call); });
  router_.Add("GET", "/sandboxes/{sandbox_id}", [this](const Call& call) { GetSandbox(call); });
  router_.Add("DELETE", "/sandboxes/{sandbox_id}",
              [this](const Call& call) { DeleteSandbox(call); });
  router_.Add("POST", "/sandboxes/{sandbox_id}/renew-expiration",
              [this](const Call& call) { RenewSandbox(call); });
  router_.Add("POST", "/sandboxes/{sandbox_id}/pause",
              [this](const Call& call) { PauseSandbox(call); });
  router_.Add("POST", "/sandboxes/{sandbox_id}/resume",
              [this](const Call& call) { ResumeSandbox(call); });
  router_.Add("PATCH", "/sandboxes/{sandbox_id}/metadata",
              [this](const Call& call) { PatchMetadata(call); });
  router_.Add("POST", "/sandboxes/{sandbox_id}/fork",
              [this](const Call& call) { ForkSandbox(call); });
  router_.Add("POST", "/sandboxes/{sandbox_id}/rollback",
              [this](const Call& call) { RollBackSandbox(call); });
  router_.Add("GET", "/sandboxes/{sandbox_id}/diff",
              [this](const Call& call) { DiffSandbox(call); });
  router_.Add("GET", "/sandboxes/{sandbox_id}/disk",
              [this](const Call& call) { MeasureSandbox(call); });
  router_.Add("GET", "/sandboxes/{sandbox_id}/endpoints/{port}",
              [this](const Call& call) { GetEndpoint(call); });
}

void Api::CreateSandbox(const Call& call) {
  call.exchange().ReadBody(kMaxCreateBody, [this, call](Result<std::string> body) {
    if (!body) return call.Respond(NamedForCreate(MapError(body.error(), Doing::kReadBody)));
    auto request = ParseCreateRequest(*body);
    if (!request) return call.Respond(std::move(request).error());
    const auto key = IdempotencyKeyOf(call.request());
    if (!key) return call.Respond(key.error());
    request->wanted.idempotency_key = *key;
    if (!key->empty()) request->wanted.fingerprint = HexEncode(Sha256(*body));
    request->wanted.request_id = call.request_id();
    if (call.audit()) call.audit()->AddFact("image", WithoutSecrets(request->wanted.spec.image));
    if (auto counted = shares_.CountCreates(call.caller(), 1); !counted) {
      return call.Respond(counted.error());
    }
    parts_.sandboxes.orders.Create(
        call.caller(), request->wanted,
        [call, entrypoint = std::move(request->entrypoint)](
            const tl::expected<sandbox::Sandbox, sandbox::CreateError>& created) {
          if (!created) return call.Respond(MapError(created.error()));
          http::Response response = JsonResponse(
              202,
              CreatedJson(*created, entrypoint.empty() ? created->spec.entrypoint : entrypoint));
          response.headers.Set("Location", "/v1/sandboxes/" + created->id);
          call.Respond(std::move(response));
        });
  });
}

void Api::ForkSandbox(const Call& call) {
  call.exchange().ReadBody(kMaxSmallBody, [this, call](Result<std::string> body) {
    if (!body) return call.Respond(MapError(body.error(), Doing::kReadBody));
    const std::string& id = call.args[0];
    const auto count = ParseForkRequest(*body);
    if (!count) return call.Respond(count.error());
    const auto key = IdempotencyKeyOf(call.request());
    if (!key) return call.Respond(key.error());
    if (auto counted = shares_.CountCreates(call.caller(), *count); !counted) {
      return call.Respond(counted.error());
    }
    sandbox::WantedFork wanted{*count, *key, "", call.request_id()};
    if (!key->empty()) wanted.fingerprint = HexEncode(Sha256("fork " + id + "\n" + *body));
    parts_.sandboxes.forks.Fork(
        call.caller(), id, wanted,
        [call](const tl::expected<std::vector<sandbox::Sandbox>, sandbox::CreateError>& children) {
          if (!children) return call.Respond(MapError(children.error(), Doing::kFork));
          call.Respond(JsonResponse(202, ForkJson(*children)));
        });
  });
}

void Api::RollBackSandbox(const Call& call) {
  call.exchange().ReadBody(kMaxSmallBody, [this, call](Result<std::string> body) {
    if (!body) return call.Respond(MapError(body.error(), Doing::kReadBody));
    const std::string& id = call.args[0];
    const auto snapshot = ParseRollbackRequest(*body);
    if (!snapshot) return call.Respond(snapshot.error());
    const auto key = IdempotencyKeyOf(call.request());
    if (!key) return call.Respond(key.error());
    sandbox::WantedRollback wanted{*snapshot, *key, "", call.request_id()};
    if (!key->empty()) wanted.fingerprint = HexEncode(Sha256("rollback " + id + "\n" + *body));
    parts_.sandboxes.rollbacks.RollBack(
        call.caller(), id, wanted,
        [call](const tl::expected<sandbox::Sandbox, sandbox::CreateError>& rolled_back) {
          if (!rolled_back) return call.Respond(MapError(rolled_back.error(), Doing::kRollBack));
          call.Respond(JsonResponse(200, RollbackJson(*rolled_back)));
        });
  });
}

void Api::ListSandboxes(const Call& call) {
  auto query = ParseListQuery(call.request().query());
  if (!query) return call.Respond(std::move(query).error());
  call.Respond(JsonResponse(
      200, ListJson(SelectPage(parts_.sandboxes.registry.All(call.caller()), *query), *query)));
}

void Api::GetSandbox(const Call& call) {
  const sandbox::Sandbox* found = parts_.sandboxes.registry.Find(call.caller(), call.args[0]);
  if (found == nullptr) return call.Respond(NoSuchSandbox(call.args[0]));
  call.Respond(JsonResponse(200, SandboxJson(*found)));
}

void Api::DeleteSandbox(const Call& call) {
  if (parts_.sandboxes.registry.Find(call.caller(), call.args[0]) == nullptr)
    return call.Respond(NoSuchSandbox(call.args[0]));
  if (auto deleted = parts_.sandboxes.endings.Delete(call.caller(), call.args[0]); !deleted) {
    return call.Respond(MapError(deleted.error(), Doing::kDelete));
  }
  call.Respond(EmptyResponse(204));
}

void Api::RenewSandbox(const Call& call) {
  call.exchange().ReadBody(kMaxSmallBody, [this, call](Result<std::string> body) {
    if (!body) return call.Respond(MapError(body.error(), Doing::kReadBody));
    const auto expires = ParseRenewRequest(*body);
    if (!expires) return call.Respond(expires.error());
    const std::string& id = call.args[0];
    if (parts_.sandboxes.registry.Find(call.caller(), id) == nullptr)
      return call.Respond(NoSuchSandbox(id));
    if (auto renewed = parts_.sandboxes.changes.Renew(call.caller(), id, *expires); !renewed) {
      return call.Respond(MapError(renewed.error(), Doing::kRenew));
    }
    call.Respond(JsonResponse(200, {{"expiresAt", FormatTime(*expires)}}));
  });
}

void Api::PauseSandbox(const Call& call) {
  parts_.sandboxes.pauses.Pause(call.caller(), call.args[0], [call](const Status& paused) {
    call.Respond(paused ? EmptyResponse(202)
                        : call.answering().Failure(MapError(paused.error(), Doing::kPause)));
  });
}

void Api::ResumeSandbox(const Call& call) {
  parts_.sandboxes.pauses.Resume(call.caller(), call.args[0], [call](const Status& resumed) {
    call.Respond(resumed ? EmptyResponse(202)
                         : call.answering().Failure(MapError(resumed.error(), Doing::kResume)));
  });
}

void Api::PatchMetadata(const Call& call) {
  call.exchange().ReadBody(kMaxSmallBody, [this, call](Result<std::string> body) {
    if (!body) return call.Respond(MapError(body.error(), Doing::kReadBody));
    const std::string& id = call.args[0];
    if (parts_.sandboxes.registry.Find(call.caller(), id) == nullptr)
      return call.Respond(NoSuchSandbox(id));
    const auto patch = ParseMetadataPatch(*body, call.request().headers.Get("Content-Type"));
    if (!patch) return call.Respond(patch.error());
    if (auto patched = parts_.sandboxes.changes.PatchMetadata(call.caller(), id, *patch);
        !patched) {
      return call.Respond(MapError(patched.error(), Doing::kPatchMetadata));
    }
    call.Respond(
        JsonResponse(200, SandboxJson(*parts_.sandboxes.registry.Find(call.caller(), id))));
  });
}

void Api::GetEndpoint(const Call& call) {
  const auto wanted =
      ParseEndpointRequest(call.args[1], call.request().query(), SystemClock().UnixMillis());
  if (!wanted) return call.Respond(wanted.error());
  const sandbox::Sandbox* found = parts_.sandboxes.registry.Find(call.caller(), call.args[0]);
  if (found == nullptr) return call.Respond(NoSuchSandbox(call.args[0]));
  if (auto may = MaySign(*wanted, call.caller()); !may) {
    return call.Respond(std::move(may).error());
  }
  std::optional<std::string> token;
  if (judge_) {
    // Root has no key that a token could name.
    const std::string& key_id = call.caller().key_id;
    token = keys_.holder_of(key_id) ? judge_->tokens().Make(key_id, found->id) : std::string();
  }
  auto response =
      EndpointResponse(call.request(), *found, *wanted, config_.endpoint, config_.ingress, token);
  call.Respond(response ? std::move(*response) : std::move(response).error());
}

void Api::MeasureSandbox(const Call& call) {
  const std::string& id = call.args[0];
  const sandbox::Sandbox* sandbox = parts_.sandboxes.registry.Find(call.caller(), id);
  if (sandbox == nullptr) return call.Respond(NoSuchSandbox(id));
  parts_.sandboxes.copies.MeasureDisk(
      call.caller(), id,
      [call, limit = sandbox->spec.limits.disk_bytes](const Result<wire::DiskUse>& use) {
        if (!use) return call.Respond(MapError(use.error(), Doing::kFind));
        nlohmann::json body = DiskUseJson(*use);
        if (limit != 0) body["limitBytes"] = limit;
        call.Respond(JsonResponse(200, body));
      });
}

}  // namespace atl::api
