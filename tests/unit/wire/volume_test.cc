#include "runtime/wire/volume.h"

#include <gtest/gtest.h>

#include "runtime/wire/plan.h"
#include "runtime/wire/spawner.h"

namespace atl::wire {
namespace {

Volume GoodVolume() {
  return {Volume::Kind::kHost, "/srv/a", "b/c", "/mnt", true};
}

// The largest allowed request fits into one packet.
TEST(WireVolume, AsManyAsThereMayBeFitIntoOneMessage) {
  Plan plan;
  plan.id = std::string(64, 'x');
  plan.layers.resize(kMaxLayers);
  plan.hostname = std::string(64, 'h');
  plan.hosts = plan.resolv_conf = std::string(kMaxEtcFile, '#');
  plan.volumes.assign(kMaxVolumes, GoodVolume());
  plan.volumes[0].target += std::string(kMaxVolumeText, 'x');
  EXPECT_LE(EncodeFields(Request{1, Build{plan}}).size(), kMaxSpawnerMessage);
}

TEST(WireVolume, FormIsChecked) {
  const auto refused = [](const Volume& volume) {
    Plan plan;
    plan.volumes = {GoodVolume(), volume};
    const bool good = CheckForm(volume).has_value();
    EXPECT_EQ(CheckForm(Build{plan}).has_value(), good);
    EXPECT_EQ(CheckForm(CheckVolume{volume}).has_value(), good);
    return !good;
  };
  EXPECT_FALSE(refused(GoodVolume()));
  const std::string nul("/a\0b", 4);
  for (const std::string& target :
       {std::string(""), std::string("/"), std::string("a"), std::string("/a/"), std::string("//a"),
        std::string("/a/../b"), std::string("/."), nul, "/" + std::string(4096, 'a')}) {
    Volume volume = GoodVolume();
    volume.target = target;
    EXPECT_TRUE(refused(volume)) << target;
    volume = GoodVolume();
    volume.source = target;
    EXPECT_TRUE(refused(volume)) << target;
  }
  for (const std::string& sub_path : {std::string("/a"), std::string("a/"), std::string(".."),
                                      std::string("a//b"), nul.substr(1)}) {
    Volume volume = GoodVolume();
    volume.sub_path = sub_path;
    EXPECT_TRUE(refused(volume)) << sub_path;
  }
  for (const std::string& name : {std::string(""), std::string("A"), std::string("a/b"),
                                  std::string(".."), std::string("-a"), std::string(254, 'a')}) {
    Volume volume{Volume::Kind::kNamed, name, "", "/v", false};
    EXPECT_TRUE(refused(volume)) << name;
    EXPECT_FALSE(CheckForm(MakeVolume{name, 0})) << name;
    EXPECT_FALSE(CheckForm(RemoveVolume{name})) << name;
    EXPECT_FALSE(CheckForm(MeasureVolume{name})) << name;
  }
  EXPECT_TRUE(CheckForm(MakeVolume{"data", 0}));
}

TEST(VolumeDirectory, HasTheTenantAndThenTheName) {
  EXPECT_EQ(VolumeDirectory("", "data"), "data");
  EXPECT_EQ(VolumeDirectory("red", "data"), "red.data");
  EXPECT_EQ(VolumeNameOf("data"), "data");
  EXPECT_EQ(VolumeNameOf("red.data"), "data");
  for (const char* good : {"data", "red.data", "r-1.d-2", "r-.d"})
    EXPECT_TRUE(ValidVolumeDirectory(good));
  for (const std::string& bad :
       {std::string(), std::string("."), std::string(".."), std::string("red."),
        std::string(".data"), std::string("a.b.c"), std::string("red./x"), std::string("-r.d"),
        "red." + std::string(250, 'a')}) {
    EXPECT_FALSE(ValidVolumeDirectory(bad)) << bad;
  }
  EXPECT_FALSE(ValidVolumeName("red.data")) << "no client may name it";
}

}  // namespace
}  // namespace atl::wire
