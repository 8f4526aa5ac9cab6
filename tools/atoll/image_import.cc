#include "tools/atoll/image_import.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "tools/atoll/json_text.h"
#include "tools/atoll/text.h"

namespace atl::cli {

Result<nlohmann::json> ImportImage(const Settings& settings, const ArchivePlace& place,
                                   const std::string& name) {
  ATOLL_ASSIGN(
      const http::Response response,
      SendArchive(settings, place, name.empty() ? "/images" : "/images?name=" + PercentEncode(name),
                  name.empty() ? place.file : name));
  ATOLL_ASSIGN(auto image, ObjectOf(response));
  if (settings.json) {
    std::puts(response.body.c_str());
  } else {
    std::printf("imported %s (%s, %s)\n", Printable(image.value("name", name)).c_str(),
                Printable(image.value("digest", "")).c_str(),
                HumanSize(image.value("sizeBytes", uint64_t{0})).c_str());
  }
  return image;
}

Result<nlohmann::json> GiveName(Api& api, const std::string& image, const std::string& name) {
  ATOLL_ASSIGN(const auto response, api.Send("POST", "/images?from=" + PercentEncode(image) +
                                                         "&name=" + PercentEncode(name)));
  return ObjectOf(response);
}

}  // namespace atl::cli
