#include "tools/atoll/verbs/image_list.h"

#include <nlohmann/json.hpp>

#include "tools/atoll/client/json_text.h"

namespace atl::cli {

Result<nlohmann::json> FindImage(Api& api, const std::string& name) {
  return Fetch(api, "/images/" + PercentEncode(name));
}

}  // namespace atl::cli
