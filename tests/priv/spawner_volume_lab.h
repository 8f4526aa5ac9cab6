// The fixture that the tests of volumes share: a spawner that allows one directory of the host, and
// sandboxes that run one line of script.
#pragma once

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "runtime/spawner/rules/config.h"
#include "tests/priv/priv_test.h"
#include "tests/priv/spawner_fixture.h"

namespace atl::priv {

inline constexpr uid_t kAlice = 4321;

class VolumeLab {
 public:
  VolumeLab()
      : spawner_("ATOLL_START_AND_EXEC", {}, {"--host-path", MakeTop(scratch_ / "allowed")}) {}

  SpawnerFixture& spawner() { return spawner_; }
  // Alice's directory, which the spawner allows, and one beside it, which it does not.
  std::string allowed() const { return scratch_ / "allowed"; }
  std::string outside() const { return scratch_ / "outside"; }
  // Returns the host's path of a named volume.
  std::string PathOf(const std::string& name) {
    return spawner_.data_dir() + "/store/volumes/" + name;
  }

  static wire::Volume Host(const std::string& path, const std::string& target = "/mnt/v") {
    wire::Volume volume;
    volume.kind = wire::Volume::Kind::kHost;
    volume.source = path;
    volume.target = target;
    return volume;
  }
  static wire::Volume Named(const std::string& name, const std::string& target = "/mnt/v") {
    wire::Volume volume;
    volume.source = name;
    volume.target = target;
    return volume;
  }
  static wire::Volume ReadOnly(wire::Volume volume) {
    volume.read_only = true;
    return volume;
  }
  static wire::Volume Sub(wire::Volume volume, const std::string& sub_path) {
    volume.sub_path = sub_path;
    return volume;
  }

  Status Make(const std::string& name, uint64_t disk_bytes = 0) {
    return Await([&](launch::SpawnerClient::Finished done) {
      spawner_.client().Ask(wire::MakeVolume{name, disk_bytes}, std::move(done));
    });
  }
  Status Remove(const std::string& name) {
    return Await([&](launch::SpawnerClient::Finished done) {
      spawner_.client().Ask(wire::RemoveVolume{name}, std::move(done));
    });
  }
  Status Check(const wire::Volume& volume) {
    return Await([&](launch::SpawnerClient::Finished done) {
      spawner_.client().Ask(wire::CheckVolume{volume}, std::move(done));
    });
  }

  // Runs `script` in a sandbox with these volumes. Returns its output without its errors, or
  // "(REASON)" if the sandbox could not be built.
  std::string Run(const std::vector<wire::Volume>& volumes, const std::string& script,
                  std::vector<wire::LayerId> layers = {1}) {
    const Status prepared = spawner_.Prepare(1);
    if (!prepared) return "(" + prepared.error().message() + ")";
    wire::Plan plan = SpawnerFixture::PlanFor(1);
    plan.volumes = volumes;
    plan.layers = std::move(layers);
    auto sandbox = spawner_.Build(plan);
    if (!sandbox) {
      // The slot is still prepared if the spawner refused the plan by its form.
      [[maybe_unused]] const Status dropped = Await([&](launch::SpawnerClient::Finished done) {
        spawner_.client().Ask(wire::DropSlot{1}, std::move(done));
      });
      return "(" + sandbox.error().message() + ")";
    }
    SpawnerFixture::Claim(*sandbox, "exec 2>/dev/null; B=/bin/busybox; " + script);
    std::string output = SpawnerFixture::ReadToEnd(sandbox->control.get());
    EXPECT_TRUE(spawner_.Destroy(plan.id));
    return output;
  }

  // Makes the directory of layer 2, for Run's `layers`.
  std::filesystem::path NewLayer() {
    const std::filesystem::path layer = spawner_.data_dir() + "/store/fs/layers/2";
    std::filesystem::create_directories(layer);
    return layer;
  }
  void OwnLayer() {
    const std::filesystem::path layer = spawner_.data_dir() + "/store/fs/layers/2";
    for (const auto& entry : std::filesystem::recursive_directory_iterator(layer)) {
      EXPECT_EQ(::lchown(entry.path().c_str(), spawner::kStoreIdBase, spawner::kStoreIdBase), 0);
    }
    EXPECT_EQ(::lchown(layer.c_str(), spawner::kStoreIdBase, spawner::kStoreIdBase), 0);
  }

 private:
  std::string MakeTop(const std::string& path) {
    std::filesystem::create_directories(path);
    EXPECT_EQ(::chown(path.c_str(), kAlice, kAlice), 0);
    std::filesystem::create_directories(outside());
    std::ofstream(outside() + "/secret") << "outside\n";
    return path;
  }

  template <typename Call>
  Status Await(Call call) {
    Status result = Fail(Code::kDeadlineExceeded, "no answer");
    bool answered = false;
    call([&](Status status) {
      answered = true;
      result = std::move(status);
    });
    spawner_.loop().RunUntil([&] { return answered; });
    return result;
  }

  ScratchDir scratch_;
  SpawnerFixture spawner_;
};

}  // namespace atl::priv
