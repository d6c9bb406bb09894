"""Control groups, read from small trees that look like the real ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from fitdoctor.probes import cgroup

V2 = "30 23 0:26 {root} {point} rw,nosuid - cgroup2 cgroup2 rw,nsdelegate"
V1 = "31 23 0:27 {root} {point} rw,nosuid - cgroup cgroup rw,{controllers}"


def tree(root: Path, own: str, mounts: list[str], files: dict[str, str]) -> Path:
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(own)
    (root / "proc/self/mountinfo").write_text("22 1 8:1 / / rw - ext4 /dev/sda1 rw\n" + "\n".join(mounts) + "\n")
    for name, text in files.items():
        path = root / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return root


def v2(root: Path, own: str, files: dict[str, str], mounted: str = "/") -> Path:
    mount = V2.format(root=mounted, point="/sys/fs/cgroup")
    return tree(root, f"0::{own}\n", [mount], {f"/sys/fs/cgroup/{name}": text for name, text in files.items()})


def v1(root: Path, own: str, files: dict[str, str], mounted: str = "/") -> Path:
    mounts = [
        V1.format(root=mounted, point="/sys/fs/cgroup/cpu,cpuacct", controllers="cpu,cpuacct"),
        V1.format(root=mounted, point="/sys/fs/cgroup/memory", controllers="memory"),
    ]
    text = f"4:memory:{own}\n3:cpu,cpuacct:{own}\n1:name=systemd:{own}\n"
    return tree(root, text, mounts, {f"/sys/fs/cgroup/{name}": value for name, value in files.items()})


def test_version_2_quota_and_memory(tmp_path: Path) -> None:
    root = v2(tmp_path, "/job", {"job/cpu.max": "150000 100000", "job/memory.max": "1073741824"})
    assert cgroup.cpu_quota(root=root) == 1.5
    assert cgroup.memory_limit(root=root) == 1 << 30


def test_version_2_without_limit(tmp_path: Path) -> None:
    root = v2(tmp_path, "/job", {"job/cpu.max": "max 100000", "job/memory.max": "max"})
    assert cgroup.cpu_quota(root=root) is None
    assert cgroup.memory_limit(root=root) is None
    assert cgroup.throttling_files(root=root) == ()


def test_the_tightest_ancestor_binds(tmp_path: Path) -> None:
    files = {
        "pod/cpu.max": "200000 100000",
        "pod/memory.max": "500",
        "pod/box/cpu.max": "800000 100000",
        "pod/box/memory.max": "900",
        "pod/box/inner/cpu.max": "max 100000",
        "pod/box/inner/memory.max": "max",
    }
    root = v2(tmp_path, "/pod/box/inner", files)
    assert cgroup.cpu_quota(root=root) == 2.0
    assert cgroup.memory_limit(root=root) == 500
    assert [path.parent.name for path in cgroup.throttling_files(root=root)] == ["box", "pod"]


def test_version_1_quota_and_memory(tmp_path: Path) -> None:
    files = {
        "cpu,cpuacct/docker/abc/cpu.cfs_quota_us": "50000",
        "cpu,cpuacct/docker/abc/cpu.cfs_period_us": "100000",
        "memory/docker/abc/memory.limit_in_bytes": "2147483648",
        "memory/docker/memory.limit_in_bytes": "9223372036854771712",
    }
    root = v1(tmp_path, "/docker/abc", files)
    assert cgroup.cpu_quota(root=root) == 0.5
    assert cgroup.memory_limit(root=root) == 2 << 30


def test_version_1_without_limit(tmp_path: Path) -> None:
    files = {
        "cpu,cpuacct/cpu.cfs_quota_us": "-1",
        "cpu,cpuacct/cpu.cfs_period_us": "100000",
        "memory/memory.limit_in_bytes": "9223372036854771712",
    }
    root = v1(tmp_path, "/", files)
    assert cgroup.cpu_quota(root=root) is None
    assert cgroup.memory_limit(root=root) is None


def test_a_container_that_mounts_only_its_own_group(tmp_path: Path) -> None:
    files = {"cpu,cpuacct/cpu.cfs_quota_us": "300000", "cpu,cpuacct/cpu.cfs_period_us": "100000"}
    root = v1(tmp_path, "/docker/abc", files, mounted="/docker/abc")
    assert cgroup.cpu_quota(root=root) == 3.0


@pytest.mark.parametrize(("own", "mounted"), [("/", "/"), ("/../../job", "/"), ("/kubepods/pod1", "/other")])
def test_a_group_namespace_shows_the_mount_point(tmp_path: Path, own: str, mounted: str) -> None:
    root = v2(tmp_path, own, {"cpu.max": "400000 100000"}, mounted=mounted)
    assert cgroup.cpu_quota(root=root) == 4.0


def test_a_name_that_only_begins_alike_is_another_group(tmp_path: Path) -> None:
    root = v2(tmp_path, "/job2", {"cpu.max": "max 100000", "2/cpu.max": "100000 100000"}, mounted="/job")
    assert cgroup.cpu_quota(root=root) is None


def test_mixed_hierarchies_use_both(tmp_path: Path) -> None:
    mounts = [
        V1.format(root="/", point="/sys/fs/cgroup/memory", controllers="memory"),
        V2.format(root="/", point="/sys/fs/cgroup/unified"),
    ]
    files = {
        "/sys/fs/cgroup/memory/a/memory.limit_in_bytes": "4096000",
        "/sys/fs/cgroup/unified/b/cpu.max": "100000 100000",
    }
    root = tree(tmp_path, "4:memory:/a\n0::/b\n", mounts, files)
    assert cgroup.cpu_quota(root=root) == 1.0
    assert cgroup.memory_limit(root=root) == 4096000


def test_no_control_groups_at_all(tmp_path: Path) -> None:
    assert cgroup.cpu_quota(root=tmp_path) is None
    assert cgroup.memory_limit(root=tmp_path) is None


def test_throttling_of_both_versions_in_seconds() -> None:
    new = cgroup.parse_throttling("usage_usec 5\nnr_periods 20\nnr_throttled 7\nthrottled_usec 1500000\n")
    old = cgroup.parse_throttling("nr_periods 20\nnr_throttled 7\nthrottled_time 1500000000\n")
    assert new == old == {"periods": 20, "throttled_periods": 7, "throttled_s": 1.5}
