// GET /sandboxes: which, in what order, and how many of them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/api/api_error.h"
#include "runtime/sandbox/sandbox.h"

namespace atl::api {

struct ListQuery {
  std::vector<std::string> states;                            // lower case; any of them; empty: all
  std::vector<std::pair<std::string, std::string>> metadata;  // all of them
  int64_t page = 1;
  int64_t page_size = 20;
};

Parsed<ListQuery> ParseListQuery(std::string_view query);

struct Page {
  std::vector<const sandbox::Sandbox*> items;  // newest first
  int64_t total_items = 0;
  int64_t total_pages = 0;
  bool has_next = false;
};
Page SelectPage(std::vector<const sandbox::Sandbox*> all, const ListQuery& query);

}  // namespace atl::api
