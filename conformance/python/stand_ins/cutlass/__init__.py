from stand_in import stand_in

stand_in("cutlass")
