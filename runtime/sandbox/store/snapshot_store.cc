#include "runtime/sandbox/store/snapshot_store.h"

#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "images/oci_layout.h"
#include "runtime/base/json_text.h"

namespace atl::sandbox {
namespace {

using nlohmann::json;

constexpr std::string_view kSnapshotStateNames[] = {"Creating", "Ready", "Failed"};

std::string EncodeRestore(const Snapshot& s) {
  return JsonText({{"image", s.image},
                   {"digest", s.image_digest},
                   {"config", images::EncodeImageConfig(s.config)},
                   {"metadata", s.metadata},
                   {"layers", s.layers}});
}

Status DecodeRestore(const std::string& text, Snapshot* s) {
  try {
    const auto parsed = ParseJson(text);
    if (!parsed)
      return Fail(Code::kInternal, "record of snapshot " + s->id + ": " + parsed.error().message());
    const json& restore = *parsed;
    restore.at("image").get_to(s->image);
    restore.at("digest").get_to(s->image_digest);
    restore.at("metadata").get_to(s->metadata);
    restore.at("layers").get_to(s->layers);
    ATOLL_ASSIGN(s->config, images::DecodeImageConfig(restore.at("config").get<std::string>()));
    return {};
  } catch (const json::exception& e) {
    return Fail(Code::kInternal, "record of snapshot " + s->id + ": " + e.what());
  }
}

Result<Snapshot::State> ParseState(const std::string& name) {
  for (size_t i = 0; i < std::size(kSnapshotStateNames); ++i) {
    if (name == kSnapshotStateNames[i]) return static_cast<Snapshot::State>(i);
  }
  return Fail(Code::kInternal, "unknown snapshot state '" + name + "'");
}

Result<Snapshot> DecodeSnapshot(const sqlite::Stmt& row) {
  Snapshot s;
  s.id = row.ColumnText(0);
  s.sandbox_id = row.ColumnText(1);
  s.name = row.ColumnText(2);
  ATOLL_ASSIGN(s.state, ParseState(row.ColumnText(3)));
  s.reason = row.ColumnText(4);
  s.message = row.ColumnText(5);
  s.created_at_ms = row.ColumnInt(6);
  s.transition_at_ms = row.ColumnInt(7);
  s.size_bytes = static_cast<uint64_t>(row.ColumnInt(8));
  ATOLL_TRY(DecodeRestore(row.ColumnText(9), &s));
  return s;
}

}  // namespace

std::string_view SnapshotStateName(Snapshot::State state) {
  return kSnapshotStateNames[static_cast<size_t>(state)];
}

Result<std::unique_ptr<SnapshotStore>> SnapshotStore::Open(const std::string& path) {
  ATOLL_ASSIGN(RecordTable table, RecordTable::Open(path, "snapshots",
                                                    {{"id", "TEXT"},
                                                     {"sandbox", "TEXT"},
                                                     {"name", "TEXT"},
                                                     {"state", "TEXT"},
                                                     {"reason", "TEXT"},
                                                     {"message", "TEXT"},
                                                     {"created_ms", "INTEGER"},
                                                     {"transition_ms", "INTEGER"},
                                                     {"size", "INTEGER"},
                                                     {"restore", "TEXT"}}));
  return std::unique_ptr<SnapshotStore>(new SnapshotStore(std::move(table)));
}

Result<std::vector<Snapshot>> SnapshotStore::Load() {
  return table_.Load(DecodeSnapshot);
}

Status SnapshotStore::Insert(const Snapshot& s) {
  ATOLL_TRY(table_.CheckRoom());
  return Update(s);
}

Status SnapshotStore::Update(const Snapshot& s) {
  return table_.Row()
      .Bind(1, s.id)
      .Bind(2, s.sandbox_id)
      .Bind(3, s.name)
      .Bind(4, SnapshotStateName(s.state))
      .Bind(5, s.reason)
      .Bind(6, s.message)
      .Bind(7, s.created_at_ms)
      .Bind(8, s.transition_at_ms)
      .Bind(9, static_cast<int64_t>(s.size_bytes))
      .Bind(10, EncodeRestore(s))
      .Run();
}

Status SnapshotStore::Remove(const std::string& id) {
  return table_.Remove(id);
}

}  // namespace atl::sandbox
