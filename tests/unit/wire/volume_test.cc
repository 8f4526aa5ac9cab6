#include "runtime/wire/volume.h"

#include <gtest/gtest.h>

#include "runtime/wire/plan.h"

namespace atl::wire {
namespace {

Volume Good() {
  return {Volume::Kind::kHost, "/srv/a", "b/c", "/mnt", true};
}

TEST(WireVolume, TravelsWithThePlan) {
  Plan plan;
  plan.id = "x";
  plan.layers = {1};
  plan.volumes = {Good(), {Volume::Kind::kNamed, "data", "", "/data", false}};
  const auto decoded = DecodePlan(EncodePlan(plan));
  ASSERT_TRUE(decoded) << decoded.error().message();
  EXPECT_EQ(decoded->volumes, plan.volumes);
  const auto alone = DecodeVolume(EncodeVolume(Good()));
  ASSERT_TRUE(alone);
  EXPECT_EQ(*alone, Good());
  plan.volumes.assign(kMaxVolumes, Good());
  EXPECT_TRUE(DecodePlan(EncodePlan(plan)));
  plan.volumes.push_back(Good());
  EXPECT_FALSE(DecodePlan(EncodePlan(plan)));
}

TEST(WireVolume, FormIsChecked) {
  const auto refused = [](const Volume& volume) {
    Plan plan;
    plan.volumes = {volume};
    EXPECT_EQ(DecodePlan(EncodePlan(plan)).has_value(),
              DecodeVolume(EncodeVolume(volume)).has_value());
    return !CheckForm(volume) && !DecodeVolume(EncodeVolume(volume));
  };
  EXPECT_FALSE(refused(Good()));
  const std::string nul("/a\0b", 4);
  for (const std::string& target :
       {std::string(""), std::string("/"), std::string("a"), std::string("/a/"), std::string("//a"),
        std::string("/a/../b"), std::string("/."), nul, "/" + std::string(4096, 'a')}) {
    Volume volume = Good();
    volume.target = target;
    EXPECT_TRUE(refused(volume)) << target;
    volume = Good();
    volume.source = target;
    EXPECT_TRUE(refused(volume)) << target;
  }
  for (const std::string& sub_path : {std::string("/a"), std::string("a/"), std::string(".."),
                                      std::string("a//b"), nul.substr(1)}) {
    Volume volume = Good();
    volume.sub_path = sub_path;
    EXPECT_TRUE(refused(volume)) << sub_path;
  }
  for (const std::string& name : {std::string(""), std::string("A"), std::string("a/b"),
                                  std::string(".."), std::string("-a"), std::string(254, 'a')}) {
    Volume volume{Volume::Kind::kNamed, name, "", "/v", false};
    EXPECT_TRUE(refused(volume)) << name;
  }
  Volume unknown = Good();
  unknown.kind = static_cast<Volume::Kind>(7);
  EXPECT_TRUE(refused(unknown));
}

}  // namespace
}  // namespace atl::wire
