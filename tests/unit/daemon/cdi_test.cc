#include "runtime/daemon/cdi.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace atl::daemon {
namespace {

constexpr char kKind[] = "fake.example/gpu";

// Has what nvidia-ctk writes, with names of a device that does not exist.
constexpr char kSpec[] = R"({
  "cdiVersion": "0.6.0", "kind": "fake.example/gpu",
  "devices": [
    {"name": "0", "containerEdits": {"deviceNodes": [{"path": "/dev/fake0", "permissions": "rw"}]}},
    {"name": "1", "containerEdits": {"deviceNodes": [
      {"path": "/dev/fake1", "hostPath": "/dev/host/fake1", "type": "c", "major": 1, "minor": 5}]}},
    {"name": "FAKE-0f3a", "containerEdits": {"deviceNodes": [{"path": "/dev/fake0"}]}},
    {"name": "all", "containerEdits": {"deviceNodes": [{"path": "/dev/fake0"}, {"path": "/dev/fake1"}]}}],
  "containerEdits": {
    "env": ["FAKE_VISIBLE_DEVICES=void"],
    "deviceNodes": [{"path": "/dev/fakectl"}],
    "mounts": [{"hostPath": "/usr/lib/libfake.so.1", "containerPath": "/usr/lib/libfake.so.1",
                "options": ["ro", "nosuid", "nodev", "bind"]}],
    "additionalGids": [44],
    "hooks": [
      {"hookName": "createContainer", "path": "/usr/bin/fake-hook",
       "args": ["fake-hook", "create-symlinks", "--link", "libfake.so.1::/usr/lib/libfake.so"]},
      {"hookName": "createContainer", "path": "/usr/bin/fake-hook",
       "args": ["fake-hook", "update-ldcache", "--folder=/usr/lib", "--folder", "/opt/fake"]},
      {"hookName": "createContainer", "path": "/usr/bin/fake-hook",
       "args": ["fake-hook", "chmod", "--mode", "755", "--path", "/dev/dri"]},
      {"hookName": "createContainer", "path": "/usr/bin/fake-hook",
       "args": ["fake-hook", "disable-device-node-modification"]}]}})";

std::string RefusalOf(const std::string& text) {
  const auto devices = ParseCdi(text, kKind, "f.json");
  return devices ? "accepted" : devices.error().message();
}

// The specification with `from` replaced by `to`.
std::string With(const std::string& from, const std::string& to) {
  std::string text = kSpec;
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(Cdi, ADeviceIsItsOwnEditsAndTheCommonOnes) {
  const auto devices = ParseCdi(kSpec, kKind, "f");
  ASSERT_TRUE(devices) << devices.error().message();
  ASSERT_EQ(devices->size(), 4U);
  const wire::Device& second = (*devices)[1];
  EXPECT_EQ(
      wire::DeviceLine(second),
      "1 node=/dev/fakectl:/dev/fakectl node=/dev/host/fake1:/dev/fake1 "
      "mount=/usr/lib/libfake.so.1:/usr/lib/libfake.so.1 link=libfake.so.1:/usr/lib/libfake.so "
      "env=FAKE_VISIBLE_DEVICES=void env=LD_LIBRARY_PATH=/usr/lib:/opt/fake");
  EXPECT_EQ(*wire::ParseDeviceLine(wire::DeviceLine(second)), second);
}

TEST(Cdi, OtherKindsAreNotOurs) {
  EXPECT_TRUE(ParseCdi(kSpec, "other.example/gpu", "f")->empty());
  EXPECT_TRUE(ParseCdi(R"({"cdiVersion": "9", "kind": "x/y", "new": 1})", kKind, "f")->empty());
}

TEST(Cdi, WhatIsNotKnownIsRefusedByName) {
  const std::pair<std::string, const char*> bad[] = {
      {"", "not JSON"},
      {"[]", "not a JSON object"},
      {std::string(100, '['), "nested deeper"},
      {With("\"kind\"", "\"cdiVersion\": \"0.6.0\", \"kind\""), "'cdiVersion' twice"},
      {With("0.6.0", "2.0.0"), "cdiVersion '2.0.0' is not supported"},
      {With("\"devices\"", "\"netDevices\": [], \"devices\""), "'netDevices' is not supported"},
      {With("\"env\"", "\"intelRdt\": {}, \"env\""), "'intelRdt' is not supported"},
      {With("\"permissions\"", "\"privileged\""), "'privileged' is not supported"},
      {With("\"type\": \"c\"", "\"type\": \"b\""), "only character devices"},
      {With("\"nodev\"", "\"suid\""), "option 'suid' is not supported"},
      {With("\"options\"", "\"type\": \"overlay\", \"options\""), "type 'overlay'"},
      {With("createContainer", "createRuntime"), "hook 'createRuntime' is not supported"},
      {With("update-ldcache", "enable-cuda-compat"), "--disable-hook=enable-cuda-compat"},
      {With("\"chmod\"", "\"mknod\""), "hook 'mknod' is not supported"},
      {With("--folder=/usr/lib", "--script=/bin/sh"), "argument '--script=/bin/sh'"},
      {With("libfake.so.1::/usr", "libfake.so.1:/usr"), "is not TARGET::PATH"},
      {With("::/usr/lib/libfake.so", "::/usr/../libfake.so"), "is not a path"},
      {With("\"/dev/fake0\"", "\"/dev/../etc/shadow\""), "is not a path"},
      {With("\"/dev/fake0\"", "\"/etc/fake0\""), "is not below /dev"},
      {With("\"/dev/fake0\"", "7"), "must be a string"},
      {With("FAKE_VISIBLE_DEVICES=void", "FAKE"), "is not NAME=VALUE"},
      {With("FAKE_VISIBLE_DEVICES=void", "A=b c"), "is not NAME=VALUE"},
      {With("FAKE_VISIBLE_DEVICES=void", "A=" + std::string(600, 'x')), "too many parts"},
      {With("\"name\": \"0\"", "\"name\": \"a b\""), "is not a device name"},
      {With("\"name\": \"0\"", "\"name\": \"1\""), "occurs twice"},
      {With("[44]", "[-44]"), "must be a group's number"},
      {With("[44]", "{\"a\": 44}"), "must be an array"},
  };
  for (const auto& [text, why] : bad) {
    EXPECT_NE(RefusalOf(text).find(why), std::string::npos) << RefusalOf(text) << "\n" << text;
  }
}

TEST(Cdi, LinesThatTheSpawnerRefuses) {
  for (const char* line :
       {"", "0", "0 ", "0  node=/dev/a:/dev/a", "0 node=/dev/a", "0 node=/dev/a:/dev/a:b",
        "0 node=/dev/a:/etc/a", "0 node=/dev/a:/dev/../etc/a", "0 node=dev/a:/dev/a",
        "0 node=/dev/a:/dev/a env=A", "0 node=/dev/a:/dev/a env==b",
        "0 node=/dev/a:/dev/a run=/bin/sh", "../0 node=/dev/a:/dev/a", "0 mount=/a:/b"}) {
    EXPECT_FALSE(wire::ParseDeviceLine(line)) << line;
  }
  std::vector<wire::Device> devices;
  EXPECT_TRUE(wire::AddDevice("0 node=/dev/a:/dev/a", &devices));
  EXPECT_FALSE(wire::AddDevice("0 node=/dev/b:/dev/b", &devices));
}

// Runs as root or not: files of another user are made by mode alone.
class CdiFiles : public testing::Test {
 protected:
  CdiFiles() {
    char name[] = "/tmp/cdi_XXXXXX";
    EXPECT_NE(::mkdtemp(name), nullptr);
    top = name;
    for (const char* directory : {"etc", "run"})
      std::filesystem::create_directory(top + "/" + directory);
  }
  ~CdiFiles() override { std::filesystem::remove_all(top); }
  void Write(const std::string& name, const std::string& text) {
    std::ofstream(top + "/" + name) << text;
    ::chmod((top + "/" + name).c_str(), 0644);
  }
  Result<std::vector<wire::Device>> Read() {
    return ReadCdi({top + "/etc", top + "/run", top + "/missing"}, kKind);
  }
  std::string Refusal() {
    const auto devices = Read();
    return devices ? "accepted" : devices.error().message();
  }
  static std::vector<std::string> NamesOf(const std::vector<wire::Device>& devices) {
    std::vector<std::string> names;
    for (const wire::Device& device : devices) names.push_back(device.name);
    return names;
  }
  std::string top;
};

TEST_F(CdiFiles, EachDeviceCountsOnce) {
  if (::geteuid() != 0) GTEST_FAIL() << "needs root, whose files alone are read";
  EXPECT_TRUE(Read()->empty());
  Write("etc/fake.json", kSpec);
  Write("etc/fake.yaml", "not: json");
  // Neither all of them nor the second name of the first is a further device.
  EXPECT_EQ(NamesOf(*Read()), (std::vector<std::string>{"0", "1"}));
  // The later directory wins.
  Write("run/fake.json", With("/dev/host/fake1", "/dev/other1"));
  const auto devices = Read();
  ASSERT_EQ(devices->size(), 2U);
  EXPECT_EQ((*devices)[1].nodes[1].source, "/dev/other1");
  Write("run/again.json", kSpec);
  EXPECT_NE(Refusal().find("is in another file, too"), std::string::npos);
}

TEST_F(CdiFiles, OnlyRootsFilesAreRead) {
  if (::geteuid() != 0) GTEST_FAIL() << "needs root, whose files alone are read";
  Write("etc/fake.json", kSpec);
  const std::string file = top + "/etc/fake.json";
  ::chmod(file.c_str(), 0664);
  EXPECT_NE(Refusal().find("chown root " + file), std::string::npos);
  ::chmod(file.c_str(), 0644);
  EXPECT_EQ(::chown(file.c_str(), 65534, 65534), 0);
  EXPECT_FALSE(Read());
  EXPECT_EQ(::chown(file.c_str(), 0, 0), 0);
  EXPECT_TRUE(Read());
  ::chmod((top + "/etc").c_str(), 0777);
  EXPECT_FALSE(Read());
  ::chmod((top + "/etc").c_str(), 0755);
  std::filesystem::create_symlink(file, top + "/etc/link.json");
  EXPECT_FALSE(Read());
  std::filesystem::remove(top + "/etc/link.json");
  EXPECT_EQ(::mkfifo((top + "/etc/pipe.json").c_str(), 0644), 0);
  EXPECT_FALSE(Read());
  std::filesystem::remove(top + "/etc/pipe.json");
  Write("etc/large.json", std::string(kMaxCdiFile + 1, ' '));
  EXPECT_NE(Refusal().find("larger than 1 MiB"), std::string::npos);
}

}  // namespace
}  // namespace atl::daemon
