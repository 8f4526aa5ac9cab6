#include "tools/atoll/image_list.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "tools/atoll/json_text.h"
#include "tools/atoll/nearest.h"

namespace atl::cli {
namespace {

std::string NearestImage(const std::string& given, const std::vector<std::string>& known) {
  std::string nearest = Nearest(given, known);
  if (!nearest.empty()) return nearest;
  // Without its tag, or with one that there is not.
  const auto bare_of = [](const std::string& name) {
    const size_t base = name.rfind('/');
    return name.substr(0, name.find(':', base == name.npos ? 0 : base));
  };
  const std::string wanted = bare_of(given);
  std::vector<std::string> bare;
  for (const std::string& name : known) bare.push_back(bare_of(name));
  const std::string found =
      std::find(bare.begin(), bare.end(), wanted) != bare.end() ? wanted : Nearest(wanted, bare);
  const auto at = std::find(bare.begin(), bare.end(), found);
  return found.empty() ? "" : known[static_cast<size_t>(at - bare.begin())];
}

}  // namespace

Result<nlohmann::json> FindImage(Api& api, const std::string& name) {
  auto image = Fetch(api, "/images/" + PercentEncode(name));
  if (image || image.error().code() != Code::kNotFound) return image;
  return Fail(OfferImage(api, name, image.error()));
}

Error OfferImage(Api& api, const std::string& name, const Error& error) {
  std::vector<std::string> known;
  if (const auto list = Fetch(api, "/images")) {
    for (const auto& image : list->value("items", nlohmann::json::array())) {
      known.push_back(TextOf(image, "name"));
    }
  }
  const std::string nearest = NearestImage(name, known);
  if (nearest.empty()) return error;
  return Error(error.code(), "there is no image '" + name + "'; did you mean '" + nearest + "'?");
}

}  // namespace atl::cli
