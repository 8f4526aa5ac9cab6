#include "images/docker_manifest.h"

#include <gtest/gtest.h>

#include "images/foreign_json.h"
#include "runtime/wire/layer.h"

namespace atl::images {
namespace {

std::string Many(size_t count, const std::string& one) {
  std::string list = one;
  for (size_t i = 1; i < count; ++i) list += "," + one;
  return list;
}
std::string Saved(const std::string& layers, const std::string& tags = R"("a:1")") {
  return R"({"Config":"c.json","RepoTags":[)" + tags + R"(],"Layers":[)" + layers + "]}";
}

TEST(DockerManifest, ReadsWhatDockerSaves) {
  auto images = ParseDockerManifest("[" + Saved(R"("1/layer.tar","2/layer.tar")") + "," +
                                    R"({"Config":"d.json","RepoTags":null,"Layers":["x"]}])");
  ASSERT_TRUE(images) << images.error().message();
  ASSERT_EQ(images->size(), 2U);
  EXPECT_EQ((*images)[0].config, "c.json");
  EXPECT_EQ((*images)[0].layers, (std::vector<std::string>{"1/layer.tar", "2/layer.tar"}));
  EXPECT_EQ((*images)[0].tags, std::vector<std::string>{"a:1"});
  EXPECT_TRUE((*images)[1].tags.empty());
}

TEST(DockerManifest, RefusesHostileBytes) {
  const std::string layer = R"("l")";
  const struct {
    std::string json;
    std::string why;
  } cases[] = {
      {"", "not JSON"},
      {"{}", "lists no image"},
      {"[]", "lists no image"},
      {"[1]", "not an object"},
      {R"([{"Layers":["l"]}])", "without Config"},
      {R"([{"Config":7,"Layers":["l"]}])", "not a string"},
      {"[" + Saved("7") + "]", "not a string"},
      {"[" + Saved(R"("")") + "]", "is empty"},
      {"[" + Saved("\"" + std::string(4096, 'x') + "\"") + "]", "longer than 4095"},
      {"[" + Saved("\"a\\u0000b\"") + "]", "zero byte"},
      {"[" + Saved(R"({"l":1})") + "]", "not a string"},
      {R"([{"Config":"c","Layers":{"l":1}}])", "not an array"},
      {"[" + Saved(Many(wire::kMaxLayers + 1, layer)) + "]", "129 entries, 128 are allowed"},
      {"[" + Many(kMaxDockerImages + 1, Saved(layer)) + "]", "257 images, 256 are allowed"},
      {"[" + Many(2, Saved(layer, Many(1024, R"("a:1")"))) + "]", "1024 RepoTags allowed"},
      // The later member would count here, the earlier one elsewhere.
      {R"([{"Config":"c","Layers":["good"],"Layers":["evil"]}])", "it has 'Layers' twice"},
      {std::string(100, '[') + std::string(100, ']'), "nested deeper than 64"},
      {std::string(2 << 20, '['), "nested deeper than 64"},
      {std::string(kMaxJsonBytes + 1, ' '), "larger than"},
  };
  for (const auto& [json, why] : cases) {
    auto images = ParseDockerManifest(json);
    ASSERT_FALSE(images) << why;
    EXPECT_NE(images.error().message().find(why), std::string::npos) << images.error().message();
  }
  EXPECT_TRUE(ParseDockerManifest("[" + Saved(Many(wire::kMaxLayers, layer)) + "]"));
  EXPECT_TRUE(ParseDockerManifest("[" + Saved("") + "]"));
  EXPECT_TRUE(ParseDockerManifest(R"([{"Config":"c","Layers":null}])"));
}

}  // namespace
}  // namespace atl::images
