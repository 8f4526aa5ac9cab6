// Finds lines in the files of an audit log.
//
// Thread rule: reads files; call where blocking is fine. The log may grow meanwhile.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/base/result.h"

namespace atl::audit {

// A selection of lines. Empty members match every line.
struct Query {
  uint64_t after = 0;  // only lines with a higher seq
  std::string since;   // "2026-11-28T05:00:00.000000Z", as in the lines; lines from then on
  std::string until;   // lines before then
  std::string action;  // "exec.command", or "exec.*"
  std::string actor;   // id or sub of the actor
  std::string target;  // id or name of the target
  // Only lines of this tenant; unset: of all.
  std::optional<std::string> tenant;
};

// Checks the values: kInvalidArgument for one that no line can have.
Status CheckQuery(const Query& query);

// Calls `each` for each line that matches, oldest first, until it returns false. Returns the seq of
// the last line that was looked at; 0: none.
Result<uint64_t> Search(const std::string& directory, const Query& query,
                        const std::function<bool(std::string_view line)>& each);

}  // namespace atl::audit
