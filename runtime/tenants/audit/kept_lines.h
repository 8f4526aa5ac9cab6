// The newest lines of each tenant from files that keep_bytes has deleted. Without them, the noise
// of one tenant would push out the lines of all others.
//
//   tenant-red.jsonl, tenant-red.jsonl.old   lines of the tenant red, oldest in .old
//   host.jsonl, host.jsonl.old               lines without a tenant
//
// A kept line is the line as it was written, with its hash, so a change of it shows. A missing one
// does not show, because the lines around it are gone.
//
// Thread rule: reads and writes files; one thread at a time keeps lines. Others may read meanwhile.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.h"

namespace atl::audit {

// Copies the lines of a file that will be deleted, which survive a power cut then. Of each tenant,
// the newest `tenant_bytes` at least stay kept, twice as many at most. Kept lines take no more than
// half of `keep_bytes`, so many tenants may have less each. Does nothing for lines that it has
// copied before.
Status KeepLines(int directory, uint64_t index, uint64_t tenant_bytes, uint64_t keep_bytes);

// Returns the size of all kept lines in bytes.
Result<uint64_t> SizeOfKept(int directory);
// Deletes kept lines of which the newest was written before `unix_s`.
Status DeleteKept(int directory, int64_t unix_s);

// Calls `each` for the kept lines before the number `end`, oldest first, until it returns false or
// an error. `tenant`: only its lines; unset: of all. `file` is the name of the line's file,
// `number` counts its lines from 1.
struct KeptLine {
  std::string_view line;
  std::string_view file;
  uint64_t number;
};
Status EachKept(int directory, const std::optional<std::string>& tenant, uint64_t end,
                const std::function<Result<bool>(const KeptLine& kept)>& each);

// Returns the tenant of a line; empty: it has none.
std::string_view TenantOf(std::string_view line);

}  // namespace atl::audit
