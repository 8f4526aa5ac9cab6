#include "images/oci_layout.h"

#include <gtest/gtest.h>

#include "images/foreign_json.h"

namespace atl::images {
namespace {

const std::string kDigest = "sha256:" + std::string(64, 'a');
const std::string kOther = "sha256:" + std::string(64, 'b');
constexpr char kManifestType[] = "application/vnd.oci.image.manifest.v1+json";

std::string Entry(const std::string& digest, const std::string& more = "",
                  const std::string& type = kManifestType) {
  return R"({"mediaType":")" + type + R"(","digest":")" + digest + R"(","size":3)" +
         (more.empty() ? "" : "," + more) + "}";
}
std::string Index(const std::string& entries) {
  return R"({"schemaVersion":2,"manifests":[)" + entries + "]}";
}
std::string Platform(const std::string& os, const std::string& arch) {
  return R"("platform":{"os":")" + os + R"(","architecture":")" + arch + R"("})";
}
std::string Named(const std::string& name) {
  return R"("annotations":{"org.opencontainers.image.ref.name":")" + name + R"("})";
}
const std::string kHost(HostArchitecture());

template <typename T>
void ExpectRefused(const Result<T>& result, const std::string& why) {
  ASSERT_FALSE(result) << why;
  EXPECT_NE(result.error().message().find(why), std::string::npos) << result.error().message();
}

TEST(OciIndex, ChoosesTheHostsPlatform) {
  auto chosen = ChooseManifest(Index(Entry(kOther, Platform("linux", "s390x")) + "," +
                                     Entry(kDigest, Platform("linux", kHost)) + "," +
                                     Entry(kOther, Platform("unknown", "unknown")) + "," +
                                     Entry(kOther, Platform("windows", kHost))),
                               "");
  ASSERT_TRUE(chosen) << chosen.error().message();
  EXPECT_EQ(chosen->digest, kDigest);
  ExpectRefused(ChooseManifest(Index(Entry(kOther, Platform("linux", "s390x"))), ""),
                "no image for linux/" + kHost + ", only for linux/s390x");
}

TEST(OciIndex, ChoosesAmongSeveralByName) {
  const std::string index =
      Index(Entry(kOther, Named("a:1")) + "," + Entry(kDigest, Named("docker.io/library/b:2")));
  EXPECT_EQ(ChooseManifest(index, "b:2")->digest, kDigest);
  ExpectRefused(ChooseManifest(index, ""), "the archive holds 2 images (a:1");
  ExpectRefused(ChooseManifest(index, "c"), "the archive holds 2 images");
}

TEST(OciIndex, SeveralNamesOfOneImageAreNoChoice) {
  const std::string index =
      Index(Entry(kDigest, Named("a:1")) + "," + Entry(kDigest, Named("b:2")));
  EXPECT_EQ(ChooseManifest(index, "")->ref_name, "a:1");
  EXPECT_EQ(ChooseManifest(index, "b:2")->ref_name, "b:2");
  EXPECT_EQ(ChooseManifest(index, "c:3")->digest, kDigest);
}

TEST(OciIndex, PrefersContainerdsName) {
  auto chosen = ChooseManifest(
      Index(Entry(kDigest, R"("annotations":{"org.opencontainers.image.ref.name":"v1",)"
                           R"("io.containerd.image.name":"docker.io/library/x:v1"})")),
      "");
  EXPECT_EQ(chosen->ref_name, "docker.io/library/x:v1");
}

TEST(OciIndex, RecognisesNestedIndexes) {
  auto chosen =
      ChooseManifest(Index(Entry(kDigest, "", "application/vnd.oci.image.index.v1+json")), "");
  ASSERT_TRUE(chosen);
  EXPECT_TRUE(chosen->is_index);
}

TEST(OciIndex, RefusesHostileBytes) {
  ExpectRefused(ChooseManifest("", ""), "not JSON");
  ExpectRefused(ChooseManifest("[]", ""), "not a JSON object");
  ExpectRefused(ChooseManifest(R"({"manifests":{}})", ""), "lists no manifest");
  ExpectRefused(ChooseManifest(Index(Entry("sha256:../../etc/passwd")), ""), "is not sha256:");
  ExpectRefused(ChooseManifest(Index(Entry("sha512:" + std::string(64, 'a'))), ""),
                "is not sha256");
  ExpectRefused(ChooseManifest(Index("1,null,[]"), ""), "no image for");
  ExpectRefused(ChooseManifest(Index(R"({"mediaType":")" + std::string(kManifestType) +
                                     R"(","digest":")" + kDigest + R"(","size":-1})"),
                               ""),
                "no valid size");
  ExpectRefused(ChooseManifest(std::string(1 << 18, '['), ""), "nested deeper than 64");
  ExpectRefused(ChooseManifest(R"({"manifests":[],"manifests":[]})", ""), "'manifests' twice");
  ExpectRefused(ChooseManifest(std::string(kMaxJsonBytes + 1, ' '), ""), "larger than");
}

std::string ManifestOf(size_t layers, const std::string& type) {
  std::string list;
  for (size_t i = 0; i < layers; ++i) list += (i ? "," : "") + Entry(kDigest, "", type);
  return R"({"config":)" + Entry(kOther) + R"(,"layers":[)" + list + "]}";
}

TEST(OciManifest, KnowsTheLayerTypes) {
  for (const char* type :
       {"application/vnd.oci.image.layer.v1.tar", "application/vnd.oci.image.layer.v1.tar+gzip",
        "application/vnd.oci.image.layer.v1.tar+zstd",
        "application/vnd.docker.image.rootfs.diff.tar.gzip"}) {
    auto manifest = ParseManifest(ManifestOf(2, type));
    ASSERT_TRUE(manifest) << type;
    EXPECT_EQ(manifest->config.digest, kOther);
    EXPECT_EQ(manifest->layers.size(), 2U);
  }
  ExpectRefused(ParseManifest(ManifestOf(1, "application/vnd.oci.image.layer.v1.tar+encrypted")),
                "+encrypted");
}

TEST(OciManifest, BoundsTheLayers) {
  const std::string type = "application/vnd.oci.image.layer.v1.tar";
  EXPECT_TRUE(ParseManifest(ManifestOf(wire::kMaxLayers, type)));
  ExpectRefused(ParseManifest(ManifestOf(wire::kMaxLayers + 1, type)),
                "129 layers, 128 are allowed");
  ExpectRefused(ParseManifest(ManifestOf(10000, type)), "10000 layers");
  EXPECT_TRUE(ParseManifest(ManifestOf(0, type)));
  ExpectRefused(ParseManifest("{}"), "no config");
  std::string manifest = ManifestOf(0, type);
  const size_t layers = manifest.find("[]");
  ASSERT_NE(layers, std::string::npos);
  EXPECT_TRUE(ParseManifest(manifest.replace(layers, 2, "null")));
  ExpectRefused(ParseManifest(manifest.replace(layers, 4, "{}")), "layers is not an array");
}

std::string Config(const std::string& process, const std::string& arch = kHost,
                   const std::string& os = "linux") {
  return R"({"os":")" + os + R"(","architecture":")" + arch + R"(","config":)" + process +
         R"(,"rootfs":{"type":"layers","diff_ids":[")" + kDigest + R"("]}})";
}

TEST(OciConfig, ReadsWhatASandboxNeeds) {
  auto parsed = ParseConfig(
      Config(R"({"Env":["PATH=/bin","EMPTY=","A=b=c"],"Cmd":["sh","-c","x"],"Entrypoint":null,)"
             R"("WorkingDir":"/srv/procfs","User":"1000:100","ExposedPorts":{"80/tcp":{}}})"));
  ASSERT_TRUE(parsed) << parsed.error().message();
  EXPECT_EQ(parsed->config.env, (std::vector<std::string>{"PATH=/bin", "EMPTY=", "A=b=c"}));
  EXPECT_EQ(parsed->config.cmd.size(), 3U);
  EXPECT_TRUE(parsed->config.entrypoint.empty());
  EXPECT_EQ(parsed->config.user, "1000:100");
  EXPECT_EQ(parsed->diff_ids, std::vector<std::string>{kDigest});
  auto again = DecodeImageConfig(EncodeImageConfig(parsed->config));
  ASSERT_TRUE(again);
  EXPECT_EQ(again->env, parsed->config.env);
  EXPECT_EQ(again->working_dir, "/srv/procfs");
  EXPECT_EQ(again->architecture, kHost);
  EXPECT_TRUE(ParseConfig(Config("null")));
}

TEST(OciConfig, RefusesAttacks) {
  const std::pair<std::string, std::string> cases[] = {
      {R"({"WorkingDir":"/proc/self/fd/7"})", "within /proc"},
      {R"({"WorkingDir":"//proc/self/fd/7/../.."})", "within /proc"},
      {R"({"WorkingDir":"/./proc"})", "within /proc"},
      {R"({"WorkingDir":"/sys"})", "within /proc or /sys"},
      {R"({"WorkingDir":"/a/../proc/self"})", "holds '..'"},
      {R"({"WorkingDir":"relative"})", "is not an absolute path"},
      {R"({"WorkingDir":"/a\u0000b"})", "control character"},
      {R"({"WorkingDir":7})", "is not a string"},
      {R"({"Env":["NOVALUE"]})", "is not NAME=value"},
      {R"({"Env":["=x"]})", "is not NAME=value"},
      {R"({"Env":["A=b\u0000C=d"]})", "zero byte"},
      {R"({"Env":"A=b"})", "not an array"},
      {R"({"Env":[1]})", "not a string"},
      {R"({"Cmd":["a\u0000b"]})", "zero byte"},
      {R"({"Env":["A=)" + std::string(200000, 'x') + R"("]})", "too long"},
      {R"({"User":")" + std::string(300, 'u') + R"("})", "longer than 256"},
      {R"({"User":"root\nx"})", "control character"},
      {"[]", "not an object"},
  };
  for (const auto& [process, why] : cases) ExpectRefused(ParseConfig(Config(process)), why);
  std::string many = R"({"Env":["A=b")";
  for (int i = 0; i < 1024; ++i) many += R"(,"A=b")";
  ExpectRefused(ParseConfig(Config(many + "]}")), "more than 1024");
}

TEST(OciConfig, RefusesForeignPlatforms) {
  ExpectRefused(ParseConfig(Config("{}", "s390x")), "is for linux/s390x");
  ExpectRefused(ParseConfig(Config("{}", kHost, "windows")), "is for windows/");
  ExpectRefused(ParseConfig("{}"), "is for /");
}

}  // namespace
}  // namespace atl::images
