# Thin: meson and the scripts in tools/ do the work. Needs only make on a Debian machine; everything else
# is installed by tools/packages.

# Debian's own python3 and meson, not whatever else is in front of them.
export PATH := /usr/bin:/bin:/usr/sbin:/sbin:$(PATH)

all: build/build.ninja
	@if [ -t 1 ]; then ninja -C build; else ninja -C build --quiet; fi

build/build.ninja:
	@tools/packages install build run
	@mkdir -p build
	@meson setup build >build/setup.log 2>&1 || { cat build/setup.log; exit 1; }

quickstart:
	@MAKE="$(MAKE)" tools/quickstart

# tools/check is a Python program: the packages come first.
check:
	@tools/packages install build
	@tools/check

check-all:
	@tools/packages install build
	@tools/check --all

check-quick:
	@tools/packages install build
	@tools/check static unit

asan:
	@tools/packages install build
	@tools/check asan integration-asan integration-asan-alone

tsan:
	@tools/packages install build
	@tools/check tsan integration-tsan integration-tsan-alone

lint:
	@tools/packages install build
	@tools/check static tidy

format:
	-@tools/packages install test
	git ls-files -co --exclude-standard '*.[ch]' | xargs clang-format-14 -i
	/usr/bin/rustfmt sdk/rust/src/lib.rs sdk/rust/examples/*.rs sdk/rust/tests/*.rs

coverage:
	@tools/packages install build
	@tools/coverage

bench: all
	@tools/bench
	@tools/bench images

check-vm: all
	@tests/vm/run

check-fresh:
	@tests/fresh/run

check-drift:
	@tools/packages install build test
	@tools/check-drift

soak:
	@tools/packages install build
	@tools/check soak

fuzz:
	@tools/packages install build
	@tools/check fuzz

install: all
	@meson install -C build
	@if [ -z "$(DESTDIR)" ]; then ldconfig; fi

deb:
	@tools/deb

clean:
	rm -rf build build-check build-asan build-tsan build-fuzz build-deb build-coverage

.PHONY: all quickstart check check-all check-quick asan tsan lint format coverage bench check-vm check-fresh check-drift soak fuzz install deb clean
