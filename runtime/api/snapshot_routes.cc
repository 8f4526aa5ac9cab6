//   POST   /v1/sandboxes/{id}/snapshots   {"name": NAME?}, null or nothing → 202 the snapshot
//   GET    /v1/snapshots                  ?sandboxId= &state= (repeated) &name= &page= &pageSize=
//   GET    /v1/snapshots/{id}
//   DELETE /v1/snapshots/{id}             204; 409 while it is taken or a sandbox uses it
#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/api/api.h"
#include "runtime/api/error_map.h"
#include "runtime/api/json.h"
#include "runtime/api/render.h"
#include "runtime/api/validation.h"
#include "runtime/http/query.h"

namespace atl::api {
namespace {

constexpr size_t kMaxSnapshotBody = 64 << 10;
constexpr size_t kMaxSnapshotName = 253;

struct SnapshotQuery : Paging {
  std::string sandbox_id;
  std::string name;
  std::vector<std::string> states;  // as they are told; any of them; empty: all
};

Parsed<SnapshotQuery> ParseSnapshotQuery(std::string_view text) {
  SnapshotQuery query;
  Problems problems;
  for (auto& [name, value] : http::ParseQuery(text)) {
    if (ReadPaging(name, value, &problems, &query)) continue;
    if (name == "sandboxId") query.sandbox_id = std::move(value);
    if (name == "name") query.name = std::move(value);
    if (name == "state") query.states.push_back(std::move(value));
  }
  if (!problems.empty()) return Refuse(problems.ToResponse());
  return query;
}

bool Matches(const sandbox::Snapshot& snapshot, const SnapshotQuery& query) {
  if (!query.sandbox_id.empty() && snapshot.sandbox_id != query.sandbox_id) return false;
  if (!query.name.empty() && snapshot.name != query.name) return false;
  const auto& states = query.states;
  return states.empty() || std::find(states.begin(), states.end(),
                                     sandbox::SnapshotStateName(snapshot.state)) != states.end();
}

// The name, or "" without one.
Parsed<std::string> ParseSnapshotRequest(const std::string& text) {
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) return std::string();
  auto parsed = ParseBody(text);
  if (!parsed) return Refuse(std::move(parsed).error());
  if (parsed->is_null()) return std::string();
  Problems problems;
  const Field body(*parsed, Location{"body"}, &problems);
  std::string name;
  if (body.IsObject()) {
    const Field field = body.At("name");
    if (field.String(&name) && name.empty()) {
      field.Complain("string_too_short", "String should have at least 1 character",
                     Dump({{"min_length", 1}}));
    } else if (name.size() > kMaxSnapshotName) {
      field.Complain("string_too_long", "String should have at most 253 characters",
                     Dump({{"max_length", kMaxSnapshotName}}));
    }
  }
  if (!problems.empty()) return Refuse(problems.ToResponse());
  return name;
}

ApiError NoSuchSnapshot(const std::string& id) {
  return {404, "SNAPSHOT::NOT_FOUND", "snapshot '" + id.substr(0, 64) + "' does not exist"};
}

}  // namespace

void Api::AddSnapshotRoutes() {
  router_.Add("POST", "/sandboxes/{}/snapshots", [this](const Call& call) { TakeSnapshot(call); });
  router_.Add("GET", "/snapshots", [this](const Call& call) { ListSnapshots(call); });
  router_.Add("GET", "/snapshots/{}", [this](const Call& call) { GetSnapshot(call); });
  router_.Add("DELETE", "/snapshots/{}", [this](const Call& call) { DeleteSnapshot(call); });
}

void Api::TakeSnapshot(const Call& call) {
  call.exchange().ReadBody(kMaxSnapshotBody, [this, call](Result<std::string> body) {
    if (!body) return call.Respond(MapError(body.error(), Doing::kReadBody));
    const auto name = ParseSnapshotRequest(*body);
    if (!name) return call.Respond(name.error());
    if (parts_.lifecycle.Find(call.args[0]) == nullptr) {
      return call.Respond(NoSuchSandbox(call.args[0]));
    }
    const auto snapshot = parts_.lifecycle.TakeSnapshot(call.args[0], *name);
    if (!snapshot) return call.Respond(MapError(snapshot.error(), Doing::kTakeSnapshot));
    http::Response response = JsonResponse(202, SnapshotJson(*snapshot));
    response.headers.Set("Location", "/v1/snapshots/" + snapshot->id);
    call.Respond(std::move(response));
  });
}

void Api::ListSnapshots(const Call& call) {
  const auto query = ParseSnapshotQuery(call.request().query());
  if (!query) return call.Respond(query.error());
  auto all = parts_.snapshots.All();
  std::erase_if(all, [&](const sandbox::Snapshot* s) { return !Matches(*s, *query); });
  call.Respond(JsonResponse(200, SnapshotsJson(NewestFirst(std::move(all), *query), *query)));
}

void Api::GetSnapshot(const Call& call) {
  const sandbox::Snapshot* found = parts_.snapshots.Find(call.args[0]);
  if (found == nullptr) return call.Respond(NoSuchSnapshot(call.args[0]));
  call.Respond(JsonResponse(200, SnapshotJson(*found)));
}

void Api::DeleteSnapshot(const Call& call) {
  const sandbox::Snapshot* found = parts_.snapshots.Find(call.args[0]);
  if (found == nullptr) return call.Respond(NoSuchSnapshot(call.args[0]));
  const bool creating = found->state == sandbox::Snapshot::State::kCreating;
  if (auto removed = parts_.lifecycle.RemoveSnapshot(call.args[0]); !removed) {
    ApiError error = MapError(removed.error(), Doing::kRemoveSnapshot);
    if (creating) error.code = "SNAPSHOT::INVALID_STATE";
    return call.Respond(error);
  }
  call.Respond(EmptyResponse(204));
}

}  // namespace atl::api
