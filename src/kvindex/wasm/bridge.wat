;; Copies lists into the core's memory: bridge.ts says why it takes a module of its own.
(module
  (import "env" "from" (memory $from 1 65536))
  (import "env" "to" (memory $to 1 65536 shared))
  ;; Copy the first $bytes bytes of one memory to an address in the other, 64 bytes a step: up to 63 more are written.
  (func (export "copy") (param $at i32) (param $bytes i32)
    (local $done i32)
    (if (i32.eqz (local.get $bytes)) (then (return)))
    (loop $next
      (v128.store $to (local.get $at) (v128.load $from (local.get $done)))
      (v128.store $to offset=16 (local.get $at) (v128.load $from offset=16 (local.get $done)))
      (v128.store $to offset=32 (local.get $at) (v128.load $from offset=32 (local.get $done)))
      (v128.store $to offset=48 (local.get $at) (v128.load $from offset=48 (local.get $done)))
      (local.set $at (i32.add (local.get $at) (i32.const 64)))
      (local.set $done (i32.add (local.get $done) (i32.const 64)))
      (br_if $next (i32.lt_u (local.get $done) (local.get $bytes))))))
