// Runs atoll-unpack for the image store, through the spawner.
#pragma once

#include "images/unpack_runner.h"
#include "runtime/launch/spawner_client.h"

namespace atl::sandbox {

class SpawnerUnpack final : public images::UnpackRunner {
 public:
  explicit SpawnerUnpack(launch::SpawnerClient& spawner) : spawner_(spawner) {}

  void SplitArchive(int archive, int directory, Done done) override {
    auto input = launch::Copy(archive);
    if (!input) return done(Fail(std::move(input).error()));
    auto output = launch::Copy(directory);
    if (!output) return done(Fail(std::move(output).error()));
    spawner_.Ask(wire::SplitArchive{std::move(*input), std::move(*output)},
                 WithReport(std::move(done)));
  }
  void ExtractLayer(int blob, wire::LayerId layer, Done done) override {
    auto input = launch::Copy(blob);
    if (!input) return done(Fail(std::move(input).error()));
    spawner_.Ask(wire::ExtractLayer{layer, std::move(*input)}, WithReport(std::move(done)));
  }
  void PackLayer(wire::LayerId layer, int file, Done done) override {
    auto output = launch::Copy(file);
    if (!output) return done(Fail(std::move(output).error()));
    spawner_.Ask(wire::PackLayer{layer, std::move(*output)}, WithReport(std::move(done)));
  }
  void PublishLayer(wire::LayerId layer, Done done) override {
    spawner_.Ask(wire::PublishLayer{layer}, WithoutReport(std::move(done)));
  }
  void RemoveLayer(wire::LayerId layer, Done done) override {
    spawner_.Ask(wire::RemoveLayer{layer}, WithoutReport(std::move(done)));
  }

 private:
  static launch::SpawnerClient::Done<wire::Unpacked> WithReport(Done done) {
    return [done = std::move(done)](Result<wire::Unpacked> unpacked) {
      if (!unpacked) return done(Fail(std::move(unpacked).error()));
      done(std::move(unpacked->report));
    };
  }
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
