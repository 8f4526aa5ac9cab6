// The durable records of templates, in a table of their own. Commits survive power loss. The
// members of a template are sandboxes and have records as such.
//
// Thread rule: on the loop. A write is one row and an fsync; templates come and go rarely.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/sandbox/record/fields.h"
#include "runtime/sandbox/store/record_table.h"
#include "runtime/wire/preparation.h"

namespace atl::sandbox {

struct TemplateRecord {
  static constexpr char kTable[] = "templates";

  std::string id;                                      // "tpl-" and a UUID
  std::string image;                                   // the normalised name
  std::map<std::string, std::string> resource_limits;  // the request's limits
  std::vector<std::string> entrypoint;
  std::map<std::string, std::string> env;
  std::map<std::string, std::string> metadata;  // labels of the template, not of its sandboxes
  wire::Preparation preparation;
  uint32_t stock = 1;  // number of members to keep ready
  // Kept as sent, only to be returned in answers. The daemon publishes nothing.
  std::string publish, format, probe;
  std::optional<int64_t> warmup_seconds;

  bool succeeded = false;  // a member has been ready at least once
  std::string failure;     // why the latest member failed; empty: it succeeded, or there was none
  int64_t created_at_ms = 0;
  int64_t updated_at_ms = 0;
  std::string tenant;  // owner; empty: the host

  static constexpr auto kId = &TemplateRecord::id;
};

template <MaybeConst<TemplateRecord> R, typename Io>
void VisitFields(R& of, Io& io) {
  io.Required("image", of.image);
  io.Required("limits", of.resource_limits);
  io.Required("entrypoint", of.entrypoint);
  io.Required("env", of.env);
  io.Required("metadata", of.metadata);
  io.Required("probePort", of.preparation.probe_port);
  io.Required("probeCommand", of.preparation.probe_command);
  io.Required("wait", of.preparation.wait_seconds);
  io.Required("command", of.preparation.command);
  io.Required("kernel", of.preparation.kernel);
  io.Required("timeout", of.preparation.timeout_seconds);
  io.Required("stock", of.stock);
  io.Required("publish", of.publish);
  io.Required("format", of.format);
  io.Required("probe", of.probe);
  io.Optional("warmup", of.warmup_seconds);
  io.Required("succeeded", of.succeeded);
  io.Required("failure", of.failure);
  io.Required("updated", of.updated_at_ms);
  io.Optional("tenant", of.tenant);
}

using TemplateStore = RecordTable<TemplateRecord>;

}  // namespace atl::sandbox
