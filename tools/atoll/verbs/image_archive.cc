// atoll image export and verify: all that is stored of an image.
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "runtime/base/json_text.h"
#include "tools/atoll/archives/archives.h"
#include "tools/atoll/client/json_text.h"
#include "tools/atoll/verbs/image_list.h"
#include "tools/atoll/verbs/image_verbs.h"
#include "tools/atoll/words/text.h"

namespace atl::cli {
namespace {

struct ExportOptions {
  std::string image, form = "oci";
  ArchivePlace place;
};
struct VerifyOptions {
  Words names;
  bool all = false;
};

Status ExportImage(const Settings& settings, const ExportOptions& options) {
  ATOLL_ASSIGN(Api api, Api::Connect(settings));
  // Looks the image up first, because that error suggests similar names.
  ATOLL_ASSIGN(const auto image, FindImage(api, options.image));
  const std::string name = TextOf(image, "name");
  return ExportArchive(api, {"/images/" + PercentEncode(name), name, options.form}, options.place);
}

// Returns true if the stored image is intact.
Result<bool> VerifyImage(Api& api, const Settings& settings, const std::string& name) {
  ATOLL_ASSIGN(const auto response, api.Send("POST", "/images/verify?name=" + PercentEncode(name)));
  ATOLL_ASSIGN(const auto told, ObjectOf(response));
  const bool intact = told.value("intact", false);
  if (settings.json) {
    std::puts(JsonText(told).c_str());
    return intact;
  }
  size_t unrecorded = 0;
  for (const auto& layer : told.value("layers", nlohmann::json::array())) {
    if (TextOf(layer, "state") == "unrecorded") ++unrecorded;
    if (TextOf(layer, "state") != "broken") continue;
    std::printf("%s: %s\n", Printable(name).c_str(), Printable(TextOf(layer, "message")).c_str());
  }
  if (unrecorded > 0) {
    std::printf(
        "%s: can be read; what %zu of its layers held when they were imported is not known, "
        "import it again to know it from then on\n",
        Printable(name).c_str(), unrecorded);
  } else if (intact) {
    std::printf("%s: intact\n", Printable(name).c_str());
  }
  return intact;
}

Status VerifyImages(const Settings& settings, VerifyOptions options) {
  if (options.names.empty() != options.all) {
    return Fail(Code::kInvalidArgument, "name images, or --all");
  }
  ATOLL_ASSIGN(Api api, Api::Connect(settings));
  if (options.all) {
    ATOLL_ASSIGN(const auto list, Fetch(api, "/images"));
    for (const auto& image : list.value("items", nlohmann::json::array())) {
      options.names.push_back(TextOf(image, "name"));
    }
  }
  std::string broken;
  for (const std::string& given : options.names) {
    ATOLL_ASSIGN(const auto image, FindImage(api, given));
    const std::string name = TextOf(image, "name");
    ATOLL_ASSIGN(const bool intact, VerifyImage(api, settings, name));
    if (!intact) broken += (broken.empty() ? "" : ", ") + name;
  }
  if (broken.empty()) return {};
  return Fail(Code::kFailedPrecondition,
              broken + (broken.find(',') == std::string::npos ? " is" : " are") +
                  " not what was imported; remove it and import it again");
}

}  // namespace

void AddExportVerb(Verb& group, const Settings& settings, const char* name, bool hidden) {
  const auto options = std::make_shared<ExportOptions>();
  Verb& verb = group.Add(name, "Write an image to an archive, which other tools read, too");
  if (hidden) {
    verb.Hidden();
    verb.Takes(Option{"-o,--output", "FILE", kArchiveTo, &options->place.file});
  }
  verb.Takes(Argument{"IMAGE", "An image as 'atoll image ls' shows it", &options->image});
  if (!hidden) {
    verb.Takes(Argument{"FILE", kArchiveTo, &options->place.file});
    verb.Takes(EndpointOption(options->place));
    verb.Takes(
        Option{"--format", "FORM", "oci (what is meant without it) or docker", &options->form});
  } else {
    options->form = "docker";
  }
  verb.Says(
      "Examples:\n"
      "  atoll image export python:3.11 python.tar\n"
      "  atoll image export --format docker python:3.11 - | podman load");
  verb.Does([options, &settings] {
    if (options->place.file.empty()) options->place.file = "-";
    return ExportImage(settings, *options);
  });
}

void AddVerifyVerb(Verb& group, const Settings& settings) {
  const auto options = std::make_shared<VerifyOptions>();
  group.Add("verify", "Read all that is stored of images, and compare it with what was imported")
      .Takes(Argument{"IMAGE", "Images as 'atoll image ls' shows them", &options->names, false})
      .Takes(Option{"-a,--all", "", "All of them", &options->all})
      .Does([options, &settings] { return VerifyImages(settings, *options); });
}

}  // namespace atl::cli
