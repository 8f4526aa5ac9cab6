#include "runtime/api/requests/list_query.h"

#include <algorithm>

#include "runtime/http/message.h"
#include "runtime/http/query.h"

namespace atl::api {
namespace {

constexpr int64_t kMaxPageSize = 200;
constexpr int64_t kMaxPage = 1LL << 40;

std::string Lower(std::string text) {
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return text;
}

// Checks a query string nested in the query: "k=v&k2=v2".
bool EveryPieceHasEquals(std::string_view text) {
  while (true) {
    const size_t end = text.find('&');
    if (text.substr(0, end).find('=') == std::string_view::npos) return false;
    if (end == std::string_view::npos) return true;
    text.remove_prefix(end + 1);
  }
}

bool Matches(const sandbox::Sandbox& sandbox, const ListQuery& query) {
  if (!query.states.empty()) {
    const std::string state = Lower(std::string(sandbox::StateName(sandbox.state)));
    if (std::find(query.states.begin(), query.states.end(), state) == query.states.end()) {
      return false;
    }
  }
  return HasMetadata(sandbox.metadata, query);
}

}  // namespace

bool HasMetadata(const std::map<std::string, std::string>& metadata, const ListQuery& query) {
  return std::all_of(query.metadata.begin(), query.metadata.end(), [&](const auto& wanted) {
    const auto found = metadata.find(wanted.first);
    return found != metadata.end() && found->second == wanted.second;
  });
}

bool ReadPaging(const std::string& name, const std::string& value, Problems* problems,
                Paging* paging) {
  if (name == "page") {
    ParseInteger(value, {"query", "page"}, 1, kMaxPage, problems, &paging->page);
  } else if (name == "pageSize") {
    ParseInteger(value, {"query", "pageSize"}, 1, kMaxPageSize, problems, &paging->page_size);
  } else {
    return false;
  }
  return true;
}

Parsed<ListQuery> ParseListQuery(std::string_view query) {
  ListQuery list;
  Problems problems;
  for (auto& [name, value] : http::ParseQuery(query)) {
    if (name == "state") {
      list.states.push_back(Lower(value));
    } else if (ReadPaging(name, value, &problems, &list)) {
    } else if (name == "metadata" && !value.empty()) {
      if (!EveryPieceHasEquals(value)) {
        return Refuse(400, "INVALID_METADATA_FORMAT",
                      "metadata '" + value.substr(0, 80) +
                          "': pass key=value pairs joined by '&', encoded as one value");
      }
      list.metadata = http::ParseQuery(value);
    }
  }
  if (!problems.empty()) return Refuse(problems.ToResponse());
  return list;
}

Page SelectPage(std::vector<const sandbox::Sandbox*> all, const ListQuery& query) {
  std::erase_if(all, [&](const sandbox::Sandbox* s) { return !Matches(*s, query); });
  return NewestFirst(std::move(all), query);
}

}  // namespace atl::api
