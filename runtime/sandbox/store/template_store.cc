#include "runtime/sandbox/store/template_store.h"

#include <nlohmann/json.hpp>

#include "runtime/base/json_text.h"

namespace atl::sandbox {
namespace {

using nlohmann::json;

std::string EncodeTemplate(const TemplateRecord& record) {
  const wire::Preparation& preparation = record.preparation;
  json out = {{"image", record.image},
              {"limits", record.resource_limits},
              {"entrypoint", record.entrypoint},
              {"env", record.env},
              {"metadata", record.metadata},
              {"probePort", preparation.probe_port},
              {"probeCommand", preparation.probe_command},
              {"wait", preparation.wait_seconds},
              {"command", preparation.command},
              {"kernel", preparation.kernel},
              {"timeout", preparation.timeout_seconds},
              {"stock", record.stock},
              {"publish", record.publish},
              {"format", record.format},
              {"probe", record.probe},
              {"succeeded", record.succeeded},
              {"failure", record.failure},
              {"created", record.created_at_ms},
              {"updated", record.updated_at_ms}};
  if (record.warmup_seconds) out["warmup"] = *record.warmup_seconds;
  return JsonText(out);
}

Result<TemplateRecord> DecodeTemplate(const sqlite::Stmt& row) {
  TemplateRecord record;
  record.id = row.ColumnText(0);
  try {
    const auto parsed = ParseJson(row.ColumnText(1));
    if (!parsed)
      return Fail(Code::kInternal,
                  "record of template " + record.id + ": " + parsed.error().message());
    const json& in = *parsed;
    const auto read = [&in](const char* name, auto& out) { in.at(name).get_to(out); };
    wire::Preparation& preparation = record.preparation;
    read("image", record.image);
    read("limits", record.resource_limits);
    read("entrypoint", record.entrypoint);
    read("env", record.env);
    read("metadata", record.metadata);
    read("probePort", preparation.probe_port);
    read("probeCommand", preparation.probe_command);
    read("wait", preparation.wait_seconds);
    read("command", preparation.command);
    read("kernel", preparation.kernel);
    read("timeout", preparation.timeout_seconds);
    read("stock", record.stock);
    read("publish", record.publish);
    read("format", record.format);
    read("probe", record.probe);
    read("succeeded", record.succeeded);
    read("failure", record.failure);
    read("created", record.created_at_ms);
    read("updated", record.updated_at_ms);
    if (in.contains("warmup")) record.warmup_seconds = in.at("warmup").get<int64_t>();
  } catch (const json::exception& e) {
    return Fail(Code::kInternal, "record of template " + record.id + ": " + e.what());
  }
  return record;
}

}  // namespace

Result<std::unique_ptr<TemplateStore>> TemplateStore::Open(const std::string& path) {
  // Nothing of it but the id is looked at by SQL.
  ATOLL_ASSIGN(RecordTable table,
               RecordTable::Open(path, "templates", {{"id", "TEXT"}, {"record", "TEXT"}}));
  return std::unique_ptr<TemplateStore>(new TemplateStore(std::move(table)));
}

Result<std::vector<TemplateRecord>> TemplateStore::Load() {
  return table_.Load(DecodeTemplate);
}

Status TemplateStore::Write(const TemplateRecord& record) {
  ATOLL_TRY(table_.CheckRoom());
  return table_.Row().Bind(1, record.id).Bind(2, EncodeTemplate(record)).Run();
}

Status TemplateStore::Remove(const std::string& id) {
  return table_.Remove(id);
}

}  // namespace atl::sandbox
