#include "runtime/api/ingress/admin_entries.h"

#include <functional>
#include <string>

namespace atl::api {

void AdminEntries::Note(const Entry& entry, int64_t unix_ms) {
  const std::string& id = entry.sandbox->id;
  const size_t hash =
      std::hash<std::string>()(id + "\n" + entry.caller.key_id + "\n" + entry.reason);
  Row& row = rows_[hash % rows_.size()];
  if (row.hash == hash && unix_ms < row.until_ms) return;
  row = {hash, unix_ms + kMillisEach};
  history_.Add(*entry.sandbox, {.time_ms = unix_ms,
                                .kind = "Entered",
                                .reason = "ADMIN_ENTERED",
                                .message = "an admin (key " + entry.caller.key_id +
                                           ") entered the sandbox: " + entry.reason});
}

}  // namespace atl::api
