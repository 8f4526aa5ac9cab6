#include "tools/atoll/verbs/each.h"

#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/base/json_text.h"
#include "tools/atoll/client/api.h"
#include "tools/atoll/client/report.h"
#include "tools/atoll/words/text.h"

namespace atl::cli {

Status ForEachOf(const Settings& settings, const std::string& path, const Words& names,
                 const std::string& method) {
  ATOLL_ASSIGN(Api api, Api::Connect(settings));
  Status last;
  for (const std::string& name : names) {
    auto done = api.Send(method, path + PercentEncode(name));
    if (!done) {
      if (!last) Report(settings, last.error());
      last = Fail(std::move(done).error());
    } else if (method == "GET") {
      const auto told = JsonOrNull(done->body);
      std::puts((settings.json ? JsonText(told) : PrettyJson(told)).c_str());
    } else if (!settings.json) {
      std::puts(Printable(name).c_str());
    }
  }
  return last;
}

}  // namespace atl::cli
