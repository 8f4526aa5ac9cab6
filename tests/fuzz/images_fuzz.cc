// Fuzzes the parsers of an archive's bytes in the daemon (index, manifest, config, report),
// docker's manifest.json in the unpacker, a registry's challenge, and the unpacker's path rules.
// The first byte chooses the parser. libFuzzer runs it under clang. The ordinary build also replays
// the corpus as a unit test.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "images/docker_manifest.h"
#include "images/image_name.h"
#include "images/oci_layout.h"
#include "images/registry/challenge.h"
#include "images/report.h"
#include "images/unpack/entry_path.h"

namespace {

using atl::images::unpack::ClassifyPath;
using atl::images::unpack::EntryKind;
using atl::images::unpack::JoinPath;
using atl::images::unpack::ParseEntryPath;

void CheckPath(std::string_view name) {
  auto path = ParseEntryPath(name);
  if (!path) return;
  auto classified = ClassifyPath(*path);
  if (!classified) return;
  for (const std::string& part : classified->path) {
    ATOLL_CHECK(!part.empty() && part != "." && part != "..");
    ATOLL_CHECK(part.find('/') == std::string::npos && part.find('\0') == std::string::npos);
    ATOLL_CHECK(part.size() <= atl::images::unpack::kMaxComponent);
    // A file's name is never one that overlayfs or a later import would read as a whiteout.
    if (classified->kind == EntryKind::kPlain) ATOLL_CHECK(!part.starts_with(".wh."));
  }
  ATOLL_CHECK(classified->kind != EntryKind::kWhiteout || !classified->path.empty());
  // An accepted path is accepted again, unchanged.
  ATOLL_CHECK(path->empty() || ParseEntryPath(JoinPath(*path)).value() == *path);
}

void CheckName(std::string_view name) {
  auto normalised = atl::images::NormaliseImageName(name);
  if (!normalised) return;
  ATOLL_CHECK(normalised->find("..") == std::string::npos || normalised->find(':') != 0);
  ATOLL_CHECK(atl::images::NormaliseImageName(*normalised).value() == *normalised);
}

void CheckChallenge(std::string_view text) {
  using atl::images::registry::ParseSecureUrl;
  const auto challenge = atl::images::registry::ParseChallenge(text);
  if (!challenge || !challenge->bearer) return;
  const auto url = atl::images::registry::TokenUrl(*challenge, "team/tool");
  if (!url) return;
  // Whatever the challenge says, the token URL uses TLS and its target fits into one request line.
  const auto there = ParseSecureUrl(*url);
  ATOLL_CHECK(there.has_value() && there->origin.starts_with("https://"));
  ATOLL_CHECK(there->target.find_first_of(" \r\n") == std::string::npos);
}

void CheckConfig(std::string_view json) {
  auto parsed = atl::images::ParseConfig(json);
  if (!parsed) return;
  ATOLL_CHECK(!parsed->config.working_dir.starts_with("/proc/"));
  auto again = atl::images::DecodeImageConfig(atl::images::EncodeImageConfig(parsed->config));
  ATOLL_CHECK(again.has_value() && again->env == parsed->config.env);
}

void CheckDockerManifest(std::string_view json) {
  auto images = atl::images::ParseDockerManifest(json);
  if (!images) return;
  ATOLL_CHECK(!images->empty() && images->size() <= atl::images::kMaxDockerImages);
  for (const atl::images::DockerImage& image : *images) {
    ATOLL_CHECK(!image.layers.empty() && image.layers.size() <= atl::wire::kMaxLayers);
    ATOLL_CHECK(image.tags.size() <= atl::images::kMaxDockerTags);
    for (const std::string& path : image.layers) {
      ATOLL_CHECK(!path.empty() && path.find('\0') == std::string::npos);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0]) {
    case 'i':
      (void)atl::images::ChooseManifest(bytes, "x");
      break;
    case 'm':
      (void)atl::images::ParseManifest(bytes);
      break;
    case 'c':
      CheckConfig(bytes);
      break;
    case 'd':
      CheckDockerManifest(bytes);
      break;
    case 'r':
      (void)atl::images::ParseUnpackReport(bytes);
      (void)atl::images::DecodeUnpackError(atl::Error(atl::Code::kInternal, std::string(bytes)));
      break;
    case 'w':
      CheckChallenge(bytes);
      break;
    case 'n':
      CheckName(bytes);
      break;
    default:
      CheckPath(bytes);
  }
  return 0;
}
