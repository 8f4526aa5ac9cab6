#include "runtime/api/requests/volume_request.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "runtime/api/requests/create_request.h"

namespace atl::api {
namespace {

using nlohmann::json;

Parsed<CreateRequest> ParseVolumes(const json& volumes) {
  const json body = {{"image", {{"uri", "busybox"}}},
                     {"entrypoint", {"sh"}},
                     {"resourceLimits", json::object()},
                     {"volumes", volumes}};
  return ParseCreateRequest(body.dump());
}

json Host(const std::string& path = "/srv/data") {
  return {{"name", "v"}, {"mountPath", "/data"}, {"host", {{"path", path}}}};
}

json Claim(const std::string& name = "claim") {
  return {{"name", "v"}, {"mountPath", "/data"}, {"pvc", {{"claimName", name}}}};
}

json Ossfs() {
  return {{"name", "v"},
          {"mountPath", "/data"},
          {"ossfs",
           {{"bucket", "bucket"},
            {"endpoint", "oss.example"},
            {"accessKeyId", "i"},
            {"accessKeySecret", "s"}}}};
}

// Returns `volume` with one member changed. null removes the member.
json With(json volume, const std::string& pointer, const json& value) {
  volume[json::json_pointer(pointer)] = value;
  return volume;
}

// Returns "422 type loc", "400 code" or "ok".
std::string Outcome(const json& volumes) {
  // Braces around one value construct that value.
  const auto parsed = ParseVolumes(volumes.is_object() ? json::array({volumes}) : volumes);
  if (parsed) return "ok";
  const json body = json::parse(parsed.error().body);
  EXPECT_FALSE(body.at("message").get<std::string>().empty());
  if (parsed.error().status != 422) {
    return std::to_string(parsed.error().status) + " " + body.at("code").get<std::string>();
  }
  const json& first = body.at("detail").at(0);
  // People read the message, and programs the pattern in the context.
  const std::string message = first.at("msg").get<std::string>();
  EXPECT_EQ(message.find('^'), std::string::npos) << message;
  std::string loc;
  for (const json& part : first.at("loc")) {
    if (part == "body" || part == "volumes") continue;
    loc += " " + (part.is_string() ? part.get<std::string>() : part.dump());
  }
  return "422 " + first.at("type").get<std::string>() + loc;
}

TEST(VolumeRequest, WhatItBecomes) {
  json claim = Claim("shared-data");
  claim["subPath"] = "a//b/./c/";
  claim["readOnly"] = true;
  claim["mountPath"] = "//mnt/./claim/";
  claim["pvc"]["createIfNotExists"] = false;
  claim["pvc"]["deleteOnSandboxTermination"] = true;
  claim["pvc"]["storage"] = "1.5Gi";
  claim["pvc"]["storageClass"] = nullptr;
  claim["pvc"]["accessModes"] = {"ReadWriteOnce"};
  const auto parsed = ParseVolumes({With(Host(), "/name", "h"), claim});
  ASSERT_TRUE(parsed) << parsed.error().body;
  const auto& mounts = parsed->wanted.mounts;
  ASSERT_EQ(mounts.size(), 2U);
  using Kind = wire::Volume::Kind;
  EXPECT_EQ(mounts[0].volume, (wire::Volume{Kind::kHost, "/srv/data", "", "/data", false}));
  EXPECT_TRUE(mounts[0].create_if_missing);
  EXPECT_FALSE(mounts[0].delete_with_sandbox);
  EXPECT_EQ(mounts[1].volume,
            (wire::Volume{Kind::kNamed, "shared-data", "a/b/c", "/mnt/claim", true}));
  EXPECT_FALSE(mounts[1].create_if_missing);
  EXPECT_TRUE(mounts[1].delete_with_sandbox);
}

TEST(VolumeRequest, Form) {
  const std::string long_name(64, 'a');
  const std::pair<json, const char*> rows[] = {
      {"x", "422 list_type"},
      {json::array({"x"}), "422 model_attributes_type 0"},
      {json::array({nullptr}), "422 model_attributes_type 0"},
      {{With(Host(), "/name", nullptr)}, "422 missing 0 name"},
      {{With(Host(), "/name", 5)}, "422 string_type 0 name"},
      {{With(Host(), "/name", "Upper")}, "422 string_pattern_mismatch 0 name"},
      {{With(Host(), "/name", "-a")}, "422 string_pattern_mismatch 0 name"},
      {{With(Host(), "/name", "a-")}, "422 string_pattern_mismatch 0 name"},
      {{With(Host(), "/name", "")}, "422 string_pattern_mismatch 0 name"},
      {{With(Host(), "/name", long_name)}, "422 string_too_long 0 name"},
      {{With(Host(), "/mountPath", nullptr)}, "422 missing 0 mountPath"},
      {{With(Host(), "/mountPath", "data")}, "422 string_pattern_mismatch 0 mountPath"},
      {{With(Host(), "/readOnly", "yes")}, "422 bool_type 0 readOnly"},
      {{With(Host(), "/subPath", 1)}, "422 string_type 0 subPath"},
      {{With(Host(), "/host", nullptr)}, "422 value_error 0"},
      {{With(Host(), "/pvc", json::object({{"claimName", "c"}}))}, "422 value_error 0"},
      {{With(Host(), "/host", "x")}, "422 model_attributes_type 0 host"},
      {{With(Host(), "/host", json::object())}, "422 missing 0 host path"},
      {{Host("relative")}, "422 string_pattern_mismatch 0 host path"},
      {{Claim("Upper")}, "422 string_pattern_mismatch 0 pvc claimName"},
      {{Claim("../x")}, "422 string_pattern_mismatch 0 pvc claimName"},
      {{Claim(std::string(253, 'a'))}, "ok"},
      {{Claim(std::string(254, 'a'))}, "422 string_too_long 0 pvc claimName"},
      {{With(Claim(), "/pvc/claimName", nullptr)}, "422 missing 0 pvc claimName"},
      {{With(Claim(), "/pvc/createIfNotExists", 1)}, "422 bool_type 0 pvc createIfNotExists"},
      {{With(Claim(), "/pvc/deleteOnSandboxTermination", "x")},
       "422 bool_type 0 pvc deleteOnSandboxTermination"},
      {{With(Claim(), "/pvc/storage", "big")}, "422 string_pattern_mismatch 0 pvc storage"},
      {{With(Claim(), "/pvc/storage", "1.Gi")}, "422 string_pattern_mismatch 0 pvc storage"},
      {{With(Claim(), "/pvc/storage", "10Gi")}, "ok"},
      {{With(Claim(), "/pvc/accessModes", "x")}, "422 list_type 0 pvc accessModes"},
      {{With(Ossfs(), "/ossfs/bucket", "ab")}, "422 string_too_short 0 ossfs bucket"},
      {{With(Ossfs(), "/ossfs/bucket", long_name)}, "422 string_too_long 0 ossfs bucket"},
      {{With(Ossfs(), "/ossfs/endpoint", "")}, "422 string_too_short 0 ossfs endpoint"},
      {{With(Ossfs(), "/ossfs/accessKeySecret", nullptr)}, "422 missing 0 ossfs accessKeySecret"},
      {{With(Ossfs(), "/ossfs/accessKeyId", nullptr)}, "422 missing 0 ossfs accessKeyId"},
      {{With(Ossfs(), "/ossfs/accessKeyId", "")}, "422 string_too_short 0 ossfs accessKeyId"},
      {{With(Ossfs(), "/ossfs/accessKeySecret", 1)}, "422 string_type 0 ossfs accessKeySecret"},
      {{With(Ossfs(), "/ossfs", "x")}, "422 model_attributes_type 0 ossfs"},
      {{With(Ossfs(), "/ossfs/version", "3.0")}, "422 literal_error 0 ossfs version"},
      {{With(Ossfs(), "/ossfs/options", json::array({"-x"}))}, "422 value_error 0 ossfs options"},
  };
  for (const auto& [volumes, expected] : rows) EXPECT_EQ(Outcome(volumes), expected) << volumes;
}

TEST(VolumeRequest, Rules) {
  const std::string nul("/srv/a\0b", 8);
  const std::pair<json, const char*> rows[] = {
      {{Host(), With(Host(), "/mountPath", "/other")}, "400 VOLUME::DUPLICATE_NAME"},
      {{Host(), With(Host(), "/name", "w")}, "400 VOLUME::INVALID_MOUNT_PATH"},
      {{Host(), With(With(Host(), "/name", "w"), "/mountPath", "/data/")},
       "400 VOLUME::INVALID_MOUNT_PATH"},
      {{With(Host(), "/mountPath", "/")}, "400 VOLUME::INVALID_MOUNT_PATH"},
      {{With(Host(), "/mountPath", "/./")}, "400 VOLUME::INVALID_MOUNT_PATH"},
      {{With(Host(), "/mountPath", "/a/../proc")}, "400 VOLUME::INVALID_MOUNT_PATH"},
      {{With(Host(), "/mountPath", "/proc")}, "400 VOLUME::INVALID_MOUNT_PATH"},
      {{With(Host(), "/mountPath", "//proc/sys")}, "400 VOLUME::INVALID_MOUNT_PATH"},
      {{With(Host(), "/mountPath", "/sys/fs")}, "400 VOLUME::INVALID_MOUNT_PATH"},
      {{With(Host(), "/mountPath", "/dev/shm")}, "400 VOLUME::INVALID_MOUNT_PATH"},
      {{With(Host(), "/mountPath", "/process")}, "ok"},
      {{With(Host(), "/mountPath", std::string("/a\0b", 4))}, "400 VOLUME::INVALID_MOUNT_PATH"},
      {{With(Host(), "/subPath", "..")}, "400 VOLUME::INVALID_SUB_PATH"},
      {{With(Host(), "/subPath", "a/../b")}, "400 VOLUME::INVALID_SUB_PATH"},
      {{With(Host(), "/subPath", "/a")}, "400 VOLUME::INVALID_SUB_PATH"},
      {{With(Host(), "/subPath", "/")}, "400 VOLUME::INVALID_SUB_PATH"},
      {{With(Host(), "/subPath", "")}, "ok"},
      {{With(Host(), "/subPath", "..a/b..")}, "ok"},
      {{With(Claim(), "/subPath", "../x")}, "400 VOLUME::INVALID_SUB_PATH"},
      {{Host("/srv/../etc")}, "400 VOLUME::INVALID_HOST_PATH"},
      {{Host("/srv/..")}, "400 VOLUME::INVALID_HOST_PATH"},
      {{Host("/srv//x")}, "400 VOLUME::INVALID_HOST_PATH"},
      {{Host("/srv/")}, "400 VOLUME::INVALID_HOST_PATH"},
      {{Host("/")}, "400 VOLUME::INVALID_HOST_PATH"},
      {{Host(nul)}, "400 VOLUME::INVALID_HOST_PATH"},
      {{Host("C:\\data")}, "400 VOLUME::INVALID_HOST_PATH"},
      {{Host("/srv/..x")}, "ok"},
      {{Ossfs()}, "ok"},
      {{With(Ossfs(), "/ossfs/bucket", "Bucket")}, "400 VOLUME::INVALID_OSSFS_BUCKET"},
      {{With(Ossfs(), "/ossfs/bucket", "buc;ket")}, "400 VOLUME::INVALID_OSSFS_BUCKET"},
      {{With(Ossfs(), "/ossfs/bucket", "bucket:/x")}, "400 VOLUME::INVALID_OSSFS_BUCKET"},
      {{With(Ossfs(), "/subPath", "a:b")}, "400 VOLUME::INVALID_SUB_PATH"},
      {{With(Ossfs(), "/subPath", "a\nb")}, "400 VOLUME::INVALID_SUB_PATH"},
      {{With(Ossfs(), "/subPath", "../a")}, "400 VOLUME::INVALID_SUB_PATH"},
      {{With(Ossfs(), "/ossfs/options", {"ro", "allow_other"})}, "ok"},
      {{With(Ossfs(), "/ossfs/options", json::array({"url=http://evil"}))},
       "400 VOLUME::INVALID_OSSFS_OPTION"},
      {{With(Ossfs(), "/ossfs/options", json::array({"ro,url=x"}))},
       "400 VOLUME::INVALID_OSSFS_OPTION"},
      {{With(Ossfs(), "/ossfs/accessKeyId", "a:b")}, "400 VOLUME::INVALID_OSSFS_CREDENTIALS"},
      {{With(Ossfs(), "/ossfs/accessKeySecret", "two\nlines")},
       "400 VOLUME::INVALID_OSSFS_CREDENTIALS"},
      {{With(Ossfs(), "/ossfs/accessKeySecret", std::string(513, 's'))},
       "400 VOLUME::INVALID_OSSFS_CREDENTIALS"},
      {{Ossfs(), With(With(Claim(), "/name", "w"), "/mountPath", "/data/below")},
       "400 VOLUME::INVALID_MOUNT_PATH"},
  };
  for (const auto& [volumes, expected] : rows) EXPECT_EQ(Outcome(volumes), expected) << volumes;
}

TEST(VolumeRequest, WhatABucketBecomes) {
  json bucket = With(With(Ossfs(), "/subPath", "a//b"), "/ossfs/options", json::array({"ro"}));
  json by_name = With(With(Ossfs(), "/name", "w"), "/mountPath", "/other");
  by_name["ossfs"]["accessKeyId"] = "@main";
  json of_the_operator = With(With(Ossfs(), "/name", "x"), "/mountPath", "/third");
  of_the_operator["ossfs"].erase("accessKeyId");
  of_the_operator["ossfs"].erase("accessKeySecret");
  const auto parsed = ParseVolumes({bucket, by_name, of_the_operator});
  ASSERT_TRUE(parsed) << parsed.error().body;
  const auto& mounts = parsed->wanted.mounts;
  using Kind = wire::Volume::Kind;
  EXPECT_EQ(mounts[0].volume, (wire::Volume{Kind::kObjects, "bucket", "a/b", "/data", true, true}));
  EXPECT_EQ(mounts[0].bucket.endpoint, "oss.example");
  EXPECT_EQ(mounts[0].bucket.credentials, (wire::ObjectCredentials{"i", "s"}));
  for (const auto& [mount, store] : {std::pair{mounts[1], "main"}, std::pair{mounts[2], ""}}) {
    EXPECT_FALSE(mount.volume.own_credentials);
    EXPECT_EQ(mount.bucket.credentials_of, store);
    EXPECT_EQ(mount.bucket.credentials, wire::ObjectCredentials());
  }
}

// An error must not repeat a secret, whatever else is wrong in the request and wherever the secret
// is.
TEST(VolumeRequest, ASecretIsInNoComplaint) {
  const json full =
      With(With(Ossfs(), "/ossfs/accessKeyId", "hush"), "/ossfs/accessKeySecret", "hush hush");
  const json& ossfs = full["ossfs"];
  const json rows[] = {
      json::array({full}),
      json::array({With(full, "/ossfs/bucket", nullptr)}),
      json::array({With(full, "/ossfs/accessKeySecret", json::array({"hush"}))}),
      json::array({With(full, "/ossfs/accessKeySecret", json{{"is", "hush"}})}),
      json::array({With(With(full, "/ossfs/accessKeySecret", nullptr), "/ossfs/access_key_secret",
                        "hush")}),
      json::array({With(full, "/ossfs", json::array({ossfs}))}),
      json::array({With(full, "/name", nullptr)}),
      json::array({With(full, "/host", json{{"path", "/"}})}),
      json::array({json::array({full})}),
      json::array({With(full, "/ossfs", ossfs.dump())}),
      json::array({With(full, "/ossfs/options", "accessKeySecret=hush")}),
      full,
  };
  for (const json& volumes : rows) {
    const auto parsed = ParseVolumes(volumes);
    ASSERT_FALSE(parsed) << volumes;
    EXPECT_EQ(parsed.error().body.find("hush"), std::string::npos) << parsed.error().body;
  }
  // The error shows the rest, so that the client can find the mistake.
  const std::string body =
      ParseVolumes(json::array({With(full, "/ossfs/bucket", nullptr)})).error().body;
  EXPECT_NE(body.find("oss.example"), std::string::npos) << body;
}

// Returns `count` volumes like that one, each with a name and a path of its own.
json Many(size_t count, const json& like) {
  json many = json::array();
  for (size_t i = 0; i < count; ++i) {
    many.push_back(With(With(like, "/name", "v" + std::to_string(i)), "/mountPath",
                        "/data/" + std::to_string(i)));
  }
  return many;
}

TEST(VolumeRequest, Buckets) {
  json many = Many(wire::kMaxBuckets, Ossfs());
  EXPECT_EQ(Outcome(many), "ok");
  many.push_back(With(With(Ossfs(), "/name", "last"), "/mountPath", "/last"));
  EXPECT_EQ(Outcome(many), "400 SANDBOX::INVALID_PARAMETER");
}

TEST(VolumeRequest, Bounds) {
  json many = Many(wire::kMaxVolumes, Claim());
  EXPECT_EQ(Outcome(many), "ok");
  json long_ones = many;
  for (json& volume : long_ones) {
    volume["subPath"] = std::string(wire::kMaxVolumeText / wire::kMaxVolumes, 'x');
  }
  EXPECT_EQ(Outcome(long_ones), "400 SANDBOX::INVALID_PARAMETER");
  many.push_back(With(With(Claim(), "/name", "last"), "/mountPath", "/last"));
  EXPECT_EQ(Outcome(many), "400 SANDBOX::INVALID_PARAMETER");
}

TEST(VolumeRequest, NameOfANewOne) {
  EXPECT_EQ(ParseNewVolume(R"({"name": "data-1"})")->name, "data-1");
  EXPECT_EQ(ParseNewVolume(R"({"name": "data-1"})")->disk_bytes, 0U);
  EXPECT_EQ(ParseNewVolume(R"({"name": "d", "storage": "1.5Gi"})")->disk_bytes, 3ULL << 29);
  EXPECT_EQ(ParseNewVolume(R"({"name": "d", "storage": "9Ei"})")->disk_bytes, 64ULL << 40);
  EXPECT_EQ(ParseNewVolume(R"({"name": "d", "storage": "1023Ki"})").error().status, 400);
  for (const char* body :
       {"", "[]", "{}", R"({"name": ""})", R"({"name": "A"})", R"({"name": 1})",
        R"({"name": "a/b"})", R"({"name": "d", "storage": "-1Gi"})",
        R"({"name": "d", "storage": "1e9"})", R"({"name": "d", "storage": "1GB"})",
        R"({"name": "d", "storage": ".5Gi"})", R"({"name": "d", "storage": "inf"})",
        R"({"name": "d", "storage": "nan"})", R"({"name": "d", "storage": "infinityGi"})",
        R"({"name": "d", "storage": "NaN"})", R"({"name": "d", "storage": ""})"}) {
    const auto parsed = ParseNewVolume(body);
    ASSERT_FALSE(parsed) << body;
    EXPECT_EQ(parsed.error().status, 422) << body;
  }
}

}  // namespace
}  // namespace atl::api
