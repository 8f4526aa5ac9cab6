// The durable records of templates: a table of its own beside the sandboxes', with commits that
// survive power loss. Their members are sandboxes, and kept as such.
//
// Thread rule: on the loop. A write is one row and an fsync; templates come and go rarely.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/sandbox/store/record_table.h"
#include "runtime/wire/preparation.h"

namespace atl::sandbox {

struct TemplateRecord {
  std::string id;                                      // "tpl-" and a UUID
  std::string image;                                   // the normalised name
  std::map<std::string, std::string> resource_limits;  // as asked for
  std::vector<std::string> entrypoint;
  std::map<std::string, std::string> env;
  std::map<std::string, std::string> metadata;  // of the template, not of its sandboxes
  wire::Preparation preparation;
  uint32_t stock = 1;  // sandboxes that wait, started and ready
  // As sent, for the answers alone: nothing is published anywhere.
  std::string publish, format, probe;
  std::optional<int64_t> warmup_seconds;

  bool succeeded = false;  // one of it has been ready
  std::string failure;     // why the latest was not; empty: it was, or there has been none
  int64_t created_at_ms = 0;
  int64_t updated_at_ms = 0;
};

class TemplateStore {
 public:
  // `path`: that of Store, which was opened before.
  static Result<std::unique_ptr<TemplateStore>> Open(const std::string& path);

  Result<std::vector<TemplateRecord>> Load();
  // Inserts or replaces. On a full disk kResourceExhausted with ENOSPC.
  Status Write(const TemplateRecord& record);
  // An unknown id is not an error.
  Status Remove(const std::string& id);

 private:
  explicit TemplateStore(RecordTable table) : table_(std::move(table)) {}

  RecordTable table_;
};

}  // namespace atl::sandbox
