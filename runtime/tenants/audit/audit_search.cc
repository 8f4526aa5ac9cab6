#include "runtime/tenants/audit/audit_search.h"

#include <fcntl.h>

#include <algorithm>

#include "runtime/base/sys.h"
#include "runtime/tenants/audit/audit_line.h"
#include "runtime/tenants/audit/kept_lines.h"
#include "runtime/tenants/audit/log_files.h"

namespace atl::audit {
namespace {

constexpr size_t kMaxValue = 200;

// Returns the part of the line from the object `name` up to the object behind it. Texts cannot hold
// `,"name":{`, because their quotes are escaped.
std::string_view PartOf(std::string_view line, std::string_view name, std::string_view behind) {
  const size_t from = line.find(name);
  if (from == std::string_view::npos) return {};
  return line.substr(from, line.find(behind, from + name.size()) - from);
}

bool HasMember(std::string_view part, std::string_view name, std::string_view value) {
  std::string member("\"");
  member.append(name).append("\":\"").append(value).append("\"");
  return part.find(member) != std::string_view::npos;
}

// Returns true if the line (without its newline) matches.
bool Matches(std::string_view line, const ParsedLine& parsed, const Query& query) {
  if (parsed.seq <= query.after) return false;
  if (!query.since.empty() && parsed.time < query.since) return false;
  if (!query.until.empty() && parsed.time >= query.until) return false;
  if (query.action.ends_with('*')) {
    const std::string_view group =
        std::string_view(query.action).substr(0, query.action.size() - 1);
    if (!parsed.action.starts_with(group)) return false;
  } else if (!query.action.empty() && parsed.action != query.action) {
    return false;
  }
  constexpr std::string_view kActor = ",\"actor\":{";
  if (query.tenant && TenantOf(line) != *query.tenant) return false;
  if (!query.actor.empty()) {
    const std::string_view part = PartOf(line, kActor, "\"},\"");
    const std::string closed = std::string(part) + "\"";
    if (!HasMember(closed, "id", query.actor) && !HasMember(closed, "sub", query.actor)) {
      return false;
    }
  }
  if (!query.target.empty()) {
    const std::string closed = std::string(PartOf(line, ",\"target\":{", "\"},\"")) + "\"";
    if (!HasMember(closed, "id", query.target) && !HasMember(closed, "name", query.target)) {
      return false;
    }
  }
  return true;
}

}  // namespace

Status CheckQuery(const Query& query) {
  for (const std::string* value :
       {&query.since, &query.until, &query.action, &query.actor, &query.target}) {
    const bool plain =
        value->size() <= kMaxValue && std::all_of(value->begin(), value->end(), [](char c) {
          return c >= ' ' && c <= '~' && c != '"' && c != '\\';
        });
    if (!plain) {
      return Fail(Code::kInvalidArgument,
                  "a value to search for has at most 200 characters of ASCII, without quotes and "
                  "backslashes");
    }
  }
  return {};
}

Result<uint64_t> Search(const std::string& directory, const Query& query,
                        const std::function<bool(std::string_view line)>& each) {
  ATOLL_TRY(CheckQuery(query));
  ATOLL_ASSIGN(const UniqueFd dir, sys::Open(directory, O_RDONLY | O_DIRECTORY));
  ATOLL_ASSIGN(const auto files, ListLogFiles(dir.get()));
  uint64_t looked_at = 0;
  bool go_on = true;
  if (!files.empty()) {
    auto oldest = LogReader::Open(dir.get(), files.front().index);
    if (!oldest && oldest.error().code() != Code::kNotFound) {
      return Fail(std::move(oldest).error());
    }
    std::optional<ParsedLine> first;
    if (oldest) {
      ATOLL_ASSIGN(const auto line, oldest->Next());
      if (line) first = ParseLine(*line);
    }
    // Lines of a file that is about to be deleted may be kept already.
    ATOLL_TRY(EachKept(dir.get(), query.tenant, first ? first->seq : UINT64_MAX,
                       [&](const KeptLine& kept) -> Result<bool> {
                         const auto parsed = ParseLine(kept.line);
                         if (!parsed) return true;
                         if (Matches(kept.line, *parsed, query)) go_on = each(kept.line);
                         if (go_on) looked_at = parsed->seq;
                         return go_on;
                       }));
  }
  if (!go_on) return looked_at;
  for (size_t i = 0; i < files.size(); ++i) {
    // A file whose successor begins at or before the first wanted line holds none.
    if (i + 1 < files.size() && query.after != 0) {
      auto next = LogReader::Open(dir.get(), files[i + 1].index);
      if (!next && next.error().code() == Code::kNotFound) continue;
      if (!next) return Fail(std::move(next).error());
      ATOLL_ASSIGN(const auto first, next->Next());
      const auto parsed = first ? ParseLine(*first) : std::nullopt;
      if (parsed && parsed->seq <= query.after) continue;
    }
    auto reader = LogReader::Open(dir.get(), files[i].index);
    // Deleted meanwhile, because it was too old.
    if (!reader && reader.error().code() == Code::kNotFound) continue;
    if (!reader) return Fail(std::move(reader).error());
    for (;;) {
      ATOLL_ASSIGN(const auto line, reader->Next());
      if (!line) break;
      const auto parsed = ParseLine(*line);
      if (!parsed) continue;
      if (Matches(*line, *parsed, query) && !each(*line)) return looked_at;
      looked_at = parsed->seq;
    }
  }
  return looked_at;
}

}  // namespace atl::audit
