"""What the wheel puts at its root, for programs that never import the engine."""
