//! An activity that is moved into files, and back: while it is there nothing is sold of it, and then nobody notices.

use super::*;

impl Night<'_> {
    /// What operators do about archives; `None`: nothing now. Only one process writes archives at a time.
    pub fn archive_or_restore(&mut self) -> Option<Step> {
        let archives = Arc::clone(self.archives.as_ref()?);
        let activity = if self.shards.is_some() { self.random.below(2) as usize } else { 0 };
        // Or by mistake: of what is not in files nothing changes.
        let op = if self.random.percent(if self.is_archived(activity) { 20 } else { 2 }) {
            Op::Restore(archives)
        } else if self.is_archived(activity) {
            return None;
        } else {
            let is_archiving = self.tasks.iter().flatten().any(|task| task.about == About::Archive);
            if is_archiving || !self.is_paused || self.has_holds(activity) || !self.random.percent(60) {
                return None;
            }
            Op::Archive(archives)
        };
        Some(Step::new(About::Archive, op).in_activity(activity))
    }

    fn has_holds(&self, activity: usize) -> bool {
        let server = self.engine.server.borrow();
        let holds =
            |part: &Activity| server.keys.field(&part.keys.requests, b"\tholds").is_some_and(|held| held != b"0");
        let activity = &self.activities[activity];
        holds(activity) || activity.parts.iter().any(holds)
    }

    /// Whether files have it, or one of its shards.
    pub fn is_archived(&self, activity: usize) -> bool {
        let found = Found::read(&self.activities[activity], &self.engine.server.borrow().keys);
        found.is_ok_and(|found| found.is_some_and(|found| found.is_archived))
    }

    /// Who is at work while an activity is in files may hear of it.
    pub fn note_archived(&mut self) {
        if self.archives.is_some() && (0..self.activities.len()).any(|activity| self.is_archived(activity)) {
            self.tasks.iter_mut().flatten().for_each(|task| task.met_archive = true);
        }
    }

    /// Whether an answer only says that the activity is in files: then it is none.
    pub fn is_of_archive(task: &Task, status: Status) -> bool {
        task.met_archive && status.code() < 0 && status != Status::Corrupt
    }

    /// What is in files at the end comes back, and is all there.
    pub fn restore_at_last(&mut self) -> Result<(), Broken> {
        for activity in 0..self.activities.len() {
            let Some(archives) = self.archives.clone().filter(|_| self.is_archived(activity)) else { continue };
            // The first may still be connected to a primary of before.
            for _ in 0..3 {
                if !self.is_archived(activity) {
                    break;
                }
                // Of a failover that lost the end of a removal keys are left: the same archive again removes them.
                let steps = [Op::Archive(Arc::clone(&archives)), Op::Restore(Arc::clone(&archives))];
                let step = |op: Op| Step::new(About::Archive, op).in_activity(activity);
                self.steps_alone(steps.map(step).into())?;
            }
            if self.is_archived(activity) {
                return broken("what is archived is restored", self.activities[activity].id.to_string());
            }
        }
        Ok(())
    }
}
