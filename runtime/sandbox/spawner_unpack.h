// The image store's way to atoll-unpack: through the spawner.
#pragma once

#include "images/unpack_runner.h"
#include "runtime/launch/spawner_client.h"

namespace atl::sandbox {

class SpawnerUnpack final : public images::UnpackRunner {
 public:
  explicit SpawnerUnpack(launch::SpawnerClient& spawner) : spawner_(spawner) {}

  void SplitArchive(int archive, int directory, Done done) override {
    spawner_.SplitArchive(archive, directory, std::move(done));
  }
  void ExtractLayer(int blob, wire::LayerId layer, Done done) override {
    spawner_.ExtractLayer(blob, layer, std::move(done));
  }
  void PublishLayer(wire::LayerId layer, Done done) override {
    spawner_.PublishLayer(layer, WithoutReport(std::move(done)));
  }
  void RemoveLayer(wire::LayerId layer, Done done) override {
    spawner_.RemoveLayer(layer, WithoutReport(std::move(done)));
  }

 private:
  static launch::SpawnerClient::Finished WithoutReport(Done done) {
    return [done = std::move(done)](Status status) {
      if (status) {
        done(std::string());
      } else {
        done(Fail(std::move(status).error()));
      }
    };
  }

  launch::SpawnerClient& spawner_;
};

}  // namespace atl::sandbox
