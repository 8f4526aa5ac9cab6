// A loop that runs only when the test asks, and a runner that unpacks from a table. For tests of
// the store alone.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <deque>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "images/archive_contents.h"
#include "images/digest.h"
#include "images/report.h"
#include "images/unpack_runner.h"
#include "runtime/base/loop.h"
#include "runtime/base/sys.h"

namespace atl::images {

class ManualLoop : public Loop {
 public:
  Id Watch(int, uint32_t, FdCallback) override { return 0; }
  void Modify(Id, uint32_t) override {}
  void Unwatch(Id) override {}
  Id After(int64_t, Callback) override { return 0; }
  void Cancel(Id) override {}
  void Post(Callback callback) override { queue_.push_back(std::move(callback)); }
  void RunBlocking(Callback work, Callback done) override {
    // Two steps, because a crash or another call may come between them.
    Post([this, work = std::move(work), done = std::move(done)] {
      work();
      Post(done);
    });
  }
  // Runs one callback. Returns false if there is none.
  bool Step() {
    if (queue_.empty()) return false;
    const Callback callback = std::move(queue_.front());
    queue_.pop_front();
    callback();
    return true;
  }
  void Run() {
    while (Step()) {
    }
  }

 private:
  std::deque<Callback> queue_;
};

class FakeRunner : public UnpackRunner {
 public:
  explicit FakeRunner(Loop& loop) : loop_(loop) {}

  // Files that the next SplitArchive puts into the directory.
  std::map<std::string, std::string> members;
  // Reports of ExtractLayer by content of the blob. Other blobs fail with `extract_error`.
  std::map<std::string, UnpackReport> reports;
  Error extract_error{Code::kInternal,
                      "exit 1: error invalid_argument: 'x': its name contains '..'\n"};
  bool fail_publish = false;
  bool away = false;
  // Output of PackLayer by layer.
  std::map<wire::LayerId, std::string> packed;

  std::vector<wire::LayerId> extracted;
  std::set<wire::LayerId> present;
  std::set<wire::LayerId> published;

  void SplitArchive(int, int directory, Done done) override {
    for (const auto& [name, bytes] : members) {
      auto fd = sys::OpenAt(directory, name, O_WRONLY | O_CREAT | O_EXCL, 0644);
      if (fd) [[maybe_unused]]
        const auto written = sys::WriteAll(fd->get(), bytes);
    }
    Answer(std::move(done), UnpackReport{}.Encode());
  }
  void ExtractLayer(int blob, wire::LayerId layer, Done done) override {
    extracted.push_back(layer);
    const auto report = reports.find(sys::ReadAll(blob, 1 << 20).value_or(""));
    if (report == reports.end()) return Answer(std::move(done), Fail(extract_error));
    present.insert(layer);
    Answer(std::move(done), report->second.Encode());
  }
  void PackLayer(wire::LayerId layer, int file, Done done) override {
    const auto tar = packed.find(layer);
    if (tar == packed.end()) return Answer(std::move(done), Fail(Code::kNotFound, "no layer"));
    EXPECT_TRUE(sys::WriteAll(file, tar->second));
    UnpackReport report;
    report.content = Sha256Of(tar->second);
    report.bytes = tar->second.size();
    Answer(std::move(done), report.Encode());
  }
  void PublishLayer(wire::LayerId layer, Done done) override {
    if (fail_publish) return Answer(std::move(done), Fail(Code::kResourceExhausted, "full"));
    published.insert(layer);
    Answer(std::move(done), std::string());
  }
  void RemoveLayer(wire::LayerId layer, Done done) override {
    if (away) return Answer(std::move(done), Fail(Code::kUnavailable, "no spawner"));
    present.erase(layer);
    published.erase(layer);
    Answer(std::move(done), std::string());
  }

 private:
  void Answer(Done done, Result<std::string> result) {
    loop_.Post([done = std::move(done), result = std::move(result)] { done(result); });
  }
  Loop& loop_;
};

// An image archive as the unpacker would leave it.
struct FakeImage {
  std::vector<std::string> blobs;  // contents of the layers, lowest first
  std::string ref_name;
  std::string process = "{}";

  static std::string Hex(const std::string& bytes) { return Sha256Of(bytes).substr(7); }
  // Returns the diff_id of a blob in these tests, an arbitrary digest.
  static std::string DiffId(const std::string& blob) { return Sha256Of("tar of " + blob); }
  // Returns the packed form of the blob's layer.
  static std::string Packed(const std::string& blob) { return "packed " + blob; }

  void Fill(FakeRunner& runner, std::string_view arch) const {
    std::string layers;
    std::string diff_ids;
    runner.members.clear();
    for (const std::string& blob : blobs) {
      const std::string comma = layers.empty() ? "" : ",";
      layers += comma + Descriptor("application/vnd.oci.image.layer.v1.tar", blob);
      diff_ids += comma + "\"" + DiffId(blob) + "\"";
      runner.members[Hex(blob)] = blob;
      UnpackReport report;
      report.diff_id = DiffId(blob);
      report.content = Sha256Of(Packed(blob));
      report.bytes = blob.size();
      runner.reports.try_emplace(blob, report);
    }
    const std::string config = R"({"os":"linux","architecture":")" + std::string(arch) +
                               R"(","config":)" + process + R"(,"rootfs":{"diff_ids":[)" +
                               diff_ids + "]}}";
    const std::string manifest = R"({"config":)" +
                                 Descriptor("application/vnd.oci.image.config.v1+json", config) +
                                 R"(,"layers":[)" + layers + "]}";
    std::string entry = Descriptor("application/vnd.oci.image.manifest.v1+json", manifest);
    if (!ref_name.empty()) {
      entry.insert(entry.size() - 1,
                   R"(,"annotations":{"org.opencontainers.image.ref.name":")" + ref_name + "\"}");
    }
    runner.members[Hex(config)] = config;
    runner.members[Hex(manifest)] = manifest;
    runner.members["index.json"] = R"({"manifests":[)" + entry + "]}";
  }
  static std::string Descriptor(const std::string& type, const std::string& bytes) {
    return R"({"mediaType":")" + type + R"(","digest":")" + Sha256Of(bytes) + R"(","size":)" +
           std::to_string(bytes.size()) + "}";
  }
};

}  // namespace atl::images
