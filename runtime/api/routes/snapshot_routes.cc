//   POST   /v1/sandboxes/{id}/snapshots   {"name": NAME?}, null or nothing → 202 the snapshot
//   GET    /v1/snapshots                  ?sandboxId= &state= (repeated) &name= &page= &pageSize=
//   GET    /v1/snapshots/{id}
//
// Extensions of the OpenSandbox API, which move a snapshot between daemons:
//
//   GET    /v1/snapshots/{id}?archive=oci   an image archive; also archive=docker
//   POST   /v1/snapshots?name=NAME          body: such an archive → 201 the snapshot, a new one
//
//   DELETE /v1/snapshots/{id}             204; 409 while it is taken or a sandbox uses it
#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/api/gate/error_map.h"
#include "runtime/api/gate/json.h"
#include "runtime/api/gate/validation.h"
#include "runtime/api/requests/labels.h"
#include "runtime/api/routes/api.h"
#include "runtime/api/routes/render.h"
#include "runtime/base/json_text.h"
#include "runtime/http/query.h"
#include "runtime/sandbox/snapshots/snapshot_facts.h"

namespace atl::api {
namespace {

constexpr size_t kMaxSnapshotBody = 64 << 10;

struct SnapshotQuery : Paging {
  std::string sandbox_id;
  std::string name;
  std::vector<std::string> states;  // clients' words; any may match; empty: all
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

// Parses the name, or "" without one.
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
    if (field.Word(&name) && name.size() > sandbox::kMaxSnapshotName) {
      field.Complain("string_too_long", "String should have at most 253 characters",
                     JsonText({{"max_length", sandbox::kMaxSnapshotName}}));
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
  router_.Add("POST", "/sandboxes/{sandbox_id}/snapshots",
              [this](const Call& call) { TakeSnapshot(call); });
  router_.Add("POST", "/snapshots", [this](const Call& call) { ImportSnapshot(call); });
  router_.Add("GET", "/snapshots", [this](const Call& call) { ListSnapshots(call); });
  router_.Add("GET", "/snapshots/{snapshot_id}", [this](const Call& call) {
    const std::string form = call.Parameter("archive");
    form.empty() ? GetSnapshot(call) : ExportSnapshot(call, form);
  });
  router_.Add("GET", "/snapshots/{snapshot_id}/disk", [this](const Call& call) {
    const sandbox::Snapshot* found = parts_.snapshots.Find(call.caller(), call.args[0]);
    if (found == nullptr) return call.Respond(NoSuchSnapshot(call.args[0]));
    call.Respond(JsonResponse(200, {{"bytes", found->size_bytes}}));
  });
  router_.Add("DELETE", "/snapshots/{snapshot_id}",
              [this](const Call& call) { DeleteSnapshot(call); });
}

void Api::TakeSnapshot(const Call& call) {
  call.exchange().ReadBody(kMaxSnapshotBody, [this, call](Result<std::string> body) {
    if (!body) return call.Respond(MapError(body.error(), Doing::kReadBody));
    const auto name = ParseSnapshotRequest(*body);
    if (!name) return call.Respond(name.error());
    if (parts_.sandboxes.registry.Find(call.caller(), call.args[0]) == nullptr) {
      return call.Respond(NoSuchSandbox(call.args[0]));
    }
    const auto snapshot = parts_.sandboxes.copies.TakeSnapshot(call.caller(), call.args[0], *name);
    if (!snapshot) return call.Respond(MapError(snapshot.error(), Doing::kTakeSnapshot));
    http::Response response = JsonResponse(202, SnapshotJson(*snapshot));
    response.headers.Set("Location", "/v1/snapshots/" + snapshot->id);
    call.Respond(std::move(response));
  });
}

void Api::ListSnapshots(const Call& call) {
  const auto query = ParseSnapshotQuery(call.request().query());
  if (!query) return call.Respond(query.error());
  auto all = parts_.snapshots.All(call.caller());
  std::erase_if(all, [&](const sandbox::Snapshot* s) { return !Matches(*s, *query); });
  call.Respond(JsonResponse(200, SnapshotsJson(NewestFirst(std::move(all), *query), *query)));
}

void Api::GetSnapshot(const Call& call) {
  const sandbox::Snapshot* found = parts_.snapshots.Find(call.caller(), call.args[0]);
  if (found == nullptr) return call.Respond(NoSuchSnapshot(call.args[0]));
  call.Respond(JsonResponse(200, SnapshotJson(*found)));
}

void Api::ExportSnapshot(const Call& call, const std::string& form) {
  const auto snapshot = parts_.snapshots.Usable(call.caller(), call.args[0]);
  if (!snapshot) return call.Respond(MapError(snapshot.error(), Doing::kExportSnapshot));
  SendArchive(call, sandbox::ImageOf(*snapshot), form, Doing::kExportSnapshot);
}

void Api::ImportSnapshot(const Call& call) {
  const std::string name = call.Parameter("name");
  // The archive says which image its files are of.
  Status allowed = parts_.sandboxes.terms.CheckMakesImages(call.caller());
  if (allowed) allowed = parts_.snapshots.CheckCount(call.caller().tenant);
  if (allowed && name.size() > sandbox::kMaxSnapshotName) {
    allowed =
        Fail(Code::kInvalidArgument, "name should have at most " +
                                         std::to_string(sandbox::kMaxSnapshotName) + " characters");
  }
  if (!allowed) return call.Respond(MapError(allowed.error(), Doing::kImportSnapshot));
  const std::shared_ptr<UniqueFd> archive = NewArchive(call, Doing::kImportSnapshot);
  if (archive == nullptr) return;
  SaveArchive(call, archive, Doing::kImportSnapshot, [this, call, archive, name](Status saved) {
    if (!saved) return;
    parts_.sandboxes.copies.ImportSnapshot(
        call.caller(), std::move(*archive), name,
        [](const sandbox::Snapshot& said) -> Status {
          const std::string wrong = CheckLabels(said.metadata);
          return wrong.empty() ? Status() : Fail(Code::kInvalidArgument, wrong);
        },
        [call](const Result<sandbox::Snapshot>& snapshot) {
          call.Respond(snapshot ? JsonResponse(201, SnapshotJson(*snapshot))
                                : call.answering().Failure(
                                      MapError(snapshot.error(), Doing::kImportSnapshot)));
        });
  });
}

void Api::DeleteSnapshot(const Call& call) {
  const sandbox::Snapshot* found = parts_.snapshots.Find(call.caller(), call.args[0]);
  if (found == nullptr) return call.Respond(NoSuchSnapshot(call.args[0]));
  const bool creating = found->state == sandbox::Snapshot::State::kCreating;
  if (auto removed = parts_.sandboxes.copies.RemoveSnapshot(call.caller(), call.args[0]);
      !removed) {
    ApiError error = MapError(removed.error(), Doing::kRemoveSnapshot);
    if (creating) error.code = "SNAPSHOT::INVALID_STATE";
    return call.Respond(error);
  }
  call.Respond(EmptyResponse(204));
}

}  // namespace atl::api
