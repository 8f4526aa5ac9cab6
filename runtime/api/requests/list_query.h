// The query of GET /sandboxes (filter and page), and the paging of all other lists.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/api/gate/api_error.h"
#include "runtime/api/gate/validation.h"
#include "runtime/sandbox/record/sandbox.h"

namespace atl::api {

struct Paging {
  int64_t page = 1;
  int64_t page_size = 20;
};
// Returns true if `name` is a paging parameter. Adds a problem if its value is malformed.
bool ReadPaging(const std::string& name, const std::string& value, Problems* problems,
                Paging* paging);

struct ListQuery : Paging {
  std::vector<std::string> states;                            // lower case; empty: all
  std::vector<std::pair<std::string, std::string>> metadata;  // all must match
};

bool HasMetadata(const std::map<std::string, std::string>& metadata, const ListQuery& query);

Parsed<ListQuery> ParseListQuery(std::string_view query);

struct PageTotals {
  int64_t total_items = 0;
  int64_t total_pages = 0;
  bool has_next = false;
};
template <typename T>
struct PageOf : PageTotals {
  std::vector<const T*> items;  // newest first
};
template <typename T>
PageOf<T> NewestFirst(std::vector<const T*> all, const Paging& paging) {
  const auto newer = [](const T* a, const T* b) {
    if (a->created_at_ms != b->created_at_ms) return a->created_at_ms > b->created_at_ms;
    return a->id > b->id;
  };
  PageOf<T> page;
  page.total_items = static_cast<int64_t>(all.size());
  page.total_pages = (page.total_items + paging.page_size - 1) / paging.page_size;
  page.has_next = paging.page < page.total_pages;
  if (paging.page > page.total_pages) return page;
  const auto begin = all.begin() + (paging.page - 1) * paging.page_size;
  const auto end = all.begin() + std::min(paging.page * paging.page_size, page.total_items);
  std::partial_sort(all.begin(), end, all.end(), newer);
  page.items.assign(begin, end);
  return page;
}

using Page = PageOf<sandbox::Sandbox>;
Page SelectPage(std::vector<const sandbox::Sandbox*> all, const ListQuery& query);

}  // namespace atl::api
