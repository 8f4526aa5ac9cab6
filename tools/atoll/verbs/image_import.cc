#include "tools/atoll/verbs/image_import.h"

#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include "tools/atoll/client/json_text.h"
#include "tools/atoll/words/text.h"

namespace atl::cli {
namespace {

struct Loss {
  const char* key;
  const char* one;
  const char* several;
};
constexpr Loss kLosses[] = {
    {"devices", "device node", "device nodes"},
    {"attributes", "extended attribute", "extended attributes"},
    {"entries", "entry with a name that no file can have",
     "entries with names that no file can have"},
    {"owners", "owner above 65535 (nobody has the file now)",
     "owners above 65535 (nobody has the files now)"},
};

// Returns "; left out, because no sandbox can use it: 2 device nodes, 3 extended attributes", or
// "".
std::string TellLeftOut(const nlohmann::json& image) {
  const nlohmann::json left_out = image.value("leftOut", nlohmann::json::object());
  std::string text;
  for (const Loss& loss : kLosses) {
    const uint64_t count = left_out.value(loss.key, uint64_t{0});
    if (count == 0) continue;
    text += (text.empty() ? "" : ", ") + std::to_string(count) + " " +
            (count == 1 ? loss.one : loss.several);
  }
  return text.empty() ? "" : "; left out, because no sandbox can use it: " + text;
}

}  // namespace

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
    std::printf("imported %s (%s, %s)%s\n", Printable(image.value("name", name)).c_str(),
                Printable(image.value("digest", "")).c_str(),
                HumanSize(image.value("sizeBytes", uint64_t{0})).c_str(),
                TellLeftOut(image).c_str());
    for (const auto& other : image.value("names", nlohmann::json::array())) {
      const std::string given = other.get<std::string>();
      if (given != image.value("name", name))
        std::printf("imported %s\n", Printable(given).c_str());
    }
  }
  return image;
}

Result<nlohmann::json> GiveName(Api& api, const std::string& image, const std::string& name) {
  ATOLL_ASSIGN(const auto response, api.Send("POST", "/images?from=" + PercentEncode(image) +
                                                         "&name=" + PercentEncode(name)));
  return ObjectOf(response);
}

}  // namespace atl::cli
